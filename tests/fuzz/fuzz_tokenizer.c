// Any bytes as a tokenizer.json, with a text behind a zero byte: refused with a message, or a
// tokenizer that encodes the text and gives valid UTF-8 back.
#include "base/log.h"
#include "data/tokenizer.h"
#include "data/utf8.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void use(const ax_tokenizer *t, const char *text, size_t length, ax_literals literals)
{
    ax_encoder *e;
    ax_ids ids = {0};
    ax_text out = {0};
    if (ax_encoder_open(t, literals, &e) != AX_OK)
        return;
    if (ax_encoder_encode(e, text, length, &ids) == AX_OK) {
        ax_decoder d = {.tokenizer = t, .special = true};
        for (int64_t i = 0; i < ids.count; i++)
            if (ax_decoder_push(&d, ids.id[i], &out) != AX_OK)
                abort();
        ax_decoder_finish(&d, &out);
        if (out.length && ax_utf8_valid(out.text, out.length) != out.length)
            abort();
    }
    ax_text_fini(&out);
    ax_ids_fini(&ids);
    ax_encoder_close(e);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    static const char usual[] =
        "It's 12 \xC3\xA9t\xC3\xA9  <s>a</s> \xFF\r\n \xE6\x97\xA5\xE6\x9C\xAC";
    const char *json = (const char *)data, *zero = size ? memchr(data, 0, size) : NULL;
    size_t length = zero ? (size_t)(zero - json) : size;
    ax_tokenizer *t;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true, .level = AX_LOG_ERROR});
    if (ax_tokenizer_parse("fuzz", json, length, &t) != AX_OK)
        return 0;
    for (int literals = AX_LITERALS_ARE_TEXT; literals <= AX_LITERALS_ARE_TOKENS; literals++) {
        use(t, usual, sizeof usual - 1, (ax_literals)literals);
        if (zero)
            use(t, zero + 1, size - length - 1, (ax_literals)literals);
    }
    ax_tokenizer_close(t);
    return 0;
}
