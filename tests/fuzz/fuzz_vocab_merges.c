// Any bytes as a vocab.json, and behind zero bytes a merges.txt, a tokenizer_config.json and an
// added_tokens.json: refused with a message, or a tokenizer that encodes and decodes.
#include "base/log.h"
#include "data/tokenizer.h"
#include "data/utf8.h"
#include "fuzz_folder.h"

#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

// Writes what stands before the next zero byte; returns what stands behind it, or NULL.
static const uint8_t *put_part(const char *name, const uint8_t *from, const uint8_t *end)
{
    if (!from) {
        fuzz_no_file(name);
        return NULL;
    }
    const uint8_t *zero = end > from ? memchr(from, 0, (size_t)(end - from)) : NULL;
    fuzz_file(name, from, (size_t)((zero ? zero : end) - from));
    return zero ? zero + 1 : NULL;
}

static void use(const ax_tokenizer *t)
{
    static const char text[] = "It's 12 ab\xC3\xA9 <|endoftext|> \xFF\r\n";
    ax_ids ids = {0};
    ax_text out = {0};
    ax_decoder d = {.tokenizer = t, .special = true};
    if (ax_tokenizer_encode(t, text, sizeof text - 1, &ids) == AX_OK) {
        for (int64_t i = 0; i < ids.count; i++)
            if (ax_decoder_push(&d, ids.id[i], &out) != AX_OK)
                abort();
        ax_decoder_finish(&d, &out);
        if (out.length && ax_utf8_valid(out.text, out.length) != out.length)
            abort();
    }
    ax_text_fini(&out);
    ax_ids_fini(&ids);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    ax_tokenizer *t;
    ax_log_setup((ax_log_config){.ranks = 1, .muted = true, .level = AX_LOG_ERROR});
    const uint8_t *end = data + size, *rest = put_part("vocab.json", data, end);
    rest = put_part("merges.txt", rest, end);
    rest = put_part("tokenizer_config.json", rest, end);
    put_part("added_tokens.json", rest, end);
    if (ax_tokenizer_open(fuzz_folder(), &t) != AX_OK)
        return 0;
    if (ax_tokenizer_eod(t) >= ax_tokenizer_vocab(t) ||
        ax_tokenizer_bos(t) >= ax_tokenizer_vocab(t))
        abort();
    use(t);
    ax_tokenizer_close(t);
    return 0;
}
