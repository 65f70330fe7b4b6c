#include "cli/cli.h"

#include "base/log.h"
#include "train/convert.h"

static ax_status print(const ax_run_config *c, const char *to, const ax_convert_result *r)
{
    ax_launch launch = ax_comm_launch();
    if (launch.launcher && launch.rank > 0)
        return AX_OK; // one answer a job
    const char *kind = r->to_hf ? "Hugging Face directory" : "checkpoint";
    if (!c->json) {
        printf("%s: %s, %lld parameters, %s\n", to, kind, (long long)r->parameters, r->dtype);
        return AX_OK;
    }
    ax_text t = {0};
    ax_text_add(&t, "{\"path\":");
    ax_text_add_json(&t, to);
    ax_text_add(&t, ",\"kind\":\"%s\",\"parameters\":%lld,\"dtype\":\"%s\"}",
                r->to_hf ? "hf" : "checkpoint", (long long)r->parameters, r->dtype);
    AX_CHECK(!t.failed, AX_ENOMEM, "no memory for the answer");
    puts(t.text);
    ax_text_fini(&t);
    return AX_OK;
}

ax_status ax_cmd_convert(int argc, char **argv)
{
    ax_run_config c;
    ax_convert_result r;
    bool helped;
    AX_TRY(ax_cli_config("convert", argc, argv, 2, &c, &helped));
    if (helped)
        return AX_OK;
    ax_status st = AX_OK;
    if (c.words != 2)
        st = ax_fail(AX_EUSAGE, __FILE__, __LINE__,
                     "convert needs two directories: axonn convert FROM TO");
    if (st == AX_OK)
        st = ax_convert(&c, c.word[0], c.word[1], &r);
    if (st == AX_OK)
        st = print(&c, c.word[1], &r);
    ax_config_fini(&c);
    return st;
}
