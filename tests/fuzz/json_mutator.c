#include "json_mutator.h"

#include <jansson.h>
#include <stdbool.h>
#include <string.h>

enum { PLACES_MOST = 4096, KEY_MOST = 256 };

typedef struct place { // of a value: in an object, or (no key) in an array
    json_t *parent;
    const char *key;
    size_t index;
} place;

typedef struct places {
    place list[PLACES_MOST];
    int count;
    unsigned seed;
} places;

static unsigned draw(places *p, unsigned below)
{
    p->seed = p->seed * 1103515245u + 12345u;
    return (p->seed >> 12) % below;
}

static json_t *value_at(const place *p)
{
    return p->key ? json_object_get(p->parent, p->key) : json_array_get(p->parent, p->index);
}

static void put(const place *p, json_t *value) // takes the reference; NULL changes nothing
{
    if (value && p->key)
        json_object_set_new(p->parent, p->key, value);
    else if (value)
        json_array_set_new(p->parent, p->index, value);
}

static void collect(json_t *node, places *p)
{
    const char *key;
    json_t *value;
    size_t i;
    json_object_foreach(node, key, value)
    {
        if (p->count < PLACES_MOST)
            p->list[p->count++] = (place){.parent = node, .key = key};
        collect(value, p);
    }
    json_array_foreach(node, i, value)
    {
        if (p->count < PLACES_MOST)
            p->list[p->count++] = (place){.parent = node, .index = i};
        collect(value, p);
    }
}

static json_t *odd_value(places *p)
{
    static const json_int_t integers[] = {
        0,
        1,
        -1,
        2,
        255,
        256,
        65535,
        65536,
        100000000,
        2147483647,
        2147483648,
        4294967295,
        4294967296,
        9007199254740993,
        -2147483648,
        1099511627776,
        INT64_MAX,
        INT64_MIN,
        INT64_MAX / 4,
        INT64_MAX / 8 + 1,
        8,
    };
    static const double reals[] = {0.0, -0.0, 0.5, 1e-5, 1e308, -1e308, 5e-324, 1e18, 1.5};
    static const char *const texts[] = {"", " ", "F32", "..", "/", "a,b", "-1", "\xEF\xBF\xBD"};
    switch (draw(p, 8)) {
    case 0:
        return json_null();
    case 1:
        return json_boolean(draw(p, 2));
    case 2:
        return json_real(reals[draw(p, sizeof reals / sizeof reals[0])]);
    case 3:
        return json_string(texts[draw(p, sizeof texts / sizeof texts[0])]);
    case 4:
        return json_array();
    case 5:
        return json_object();
    default:
        return json_integer(integers[draw(p, sizeof integers / sizeof integers[0])]);
    }
}

static json_t *changed_text(const json_t *text)
{
    uint8_t bytes[KEY_MOST];
    size_t n = json_string_length(text);
    if (n > sizeof bytes)
        return NULL;
    memcpy(bytes, json_string_value(text), n);
    n = LLVMFuzzerMutate(bytes, n, sizeof bytes);
    return json_stringn((const char *)bytes, n); // NULL where it is no UTF-8
}

static json_t *changed_value(places *p, json_t *old)
{
    json_int_t n = json_integer_value(old);
    if (json_is_string(old))
        return changed_text(old);
    if (json_is_integer(old))
        switch (draw(p, 4)) {
        case 0:
            return json_integer((json_int_t)((uint64_t)n + 1));
        case 1:
            return json_integer((json_int_t)((uint64_t)n - 1));
        case 2:
            return json_integer((json_int_t)((uint64_t)n * 2));
        default:
            return json_integer((json_int_t)((uint64_t)n << draw(p, 63)));
        }
    return odd_value(p);
}

static void rename_key(places *p, const place *at)
{
    const place *other = &p->list[draw(p, (unsigned)p->count)];
    json_t *value = json_incref(value_at(at));
    json_t *text = NULL;
    if (other->key && other->parent != at->parent)
        text = json_string(other->key);
    else {
        json_t *key = json_string(at->key);
        text = changed_text(key);
        json_decref(key);
    }
    if (text && strlen(json_string_value(text)) == json_string_length(text)) {
        json_object_del(at->parent, at->key);
        json_object_set(at->parent, json_string_value(text), value);
    }
    json_decref(text);
    json_decref(value);
}

static void change(places *p)
{
    const place *at = &p->list[draw(p, (unsigned)p->count)];
    const place *other = &p->list[draw(p, (unsigned)p->count)];
    switch (draw(p, 8)) {
    case 0:
        put(at, odd_value(p));
        break;
    case 1:
        put(at, json_deep_copy(value_at(other)));
        break;
    case 2:
        if (at->key)
            json_object_del(at->parent, at->key);
        else
            json_array_remove(at->parent, at->index);
        break;
    case 3:
        if (at->key)
            rename_key(p, at);
        else
            json_array_insert_new(at->parent, at->index, json_deep_copy(value_at(other)));
        break;
    case 4: { // an entry of another object
        json_t *to = value_at(at);
        if (other->key && json_is_object(to))
            json_object_set_new(to, other->key, json_deep_copy(value_at(other)));
        else if (json_is_array(to))
            json_array_append_new(to, json_deep_copy(value_at(other)));
        break;
    }
    default:
        put(at, changed_value(p, value_at(at)));
    }
}

size_t json_mutate(uint8_t *data, size_t size, size_t room, unsigned seed)
{
    static places p;
    if (room == 0) // nothing fits, and libFuzzer would stop there
        return 0;
    p.seed = seed;
    p.count = 0;
    json_t *root = draw(&p, 6) ? json_loadb((const char *)data, size, JSON_ALLOW_NUL, NULL) : NULL;
    if (root)
        collect(root, &p);
    size_t length = 0;
    for (unsigned times = 1 + draw(&p, 3); p.count && times > 0; times--) {
        change(&p);
        p.count = 0;
        collect(root, &p);
    }
    if (root)
        length = json_dumpb(root, (char *)data, room, JSON_COMPACT | JSON_ENCODE_ANY);
    json_decref(root);
    return length > 0 && length <= room ? length : LLVMFuzzerMutate(data, size, room);
}
