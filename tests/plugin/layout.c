/* Offsets and sizes of every public record, compared with layout.txt. Version 1 is what stands
 * there: lines may be added for new members at the end of a growing record, none may change. */
#include <stddef.h>
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "base/str.h"
#include "plugin/graft_plugin.h"
#include "tests/test.h"

#define RECORD(T)    graft_str_printf(&s, #T " %zu\n", sizeof(T))
#define MEMBER(T, m) graft_str_printf(&s, "  " #m " %zu %zu\n", offsetof(T, m), sizeof(((T *)0)->m))

static char *values_and_host(void)
{
    graft_str s = GRAFT_STR_INIT;
    RECORD(graft_payload);
    MEMBER(graft_payload, i), MEMBER(graft_payload, f), MEMBER(graft_payload, s);
    MEMBER(graft_payload, v);
    RECORD(graft_arg);
    MEMBER(graft_arg, kind), MEMBER(graft_arg, zero), MEMBER(graft_arg, u);
    RECORD(graft_value);
    MEMBER(graft_value, ops);
    RECORD(graft_value_ops);
    MEMBER(graft_value_ops, type), MEMBER(graft_value_ops, retain);
    MEMBER(graft_value_ops, release), MEMBER(graft_value_ops, query);
    RECORD(graft_tensor);
    MEMBER(graft_tensor, data), MEMBER(graft_tensor, ndim), MEMBER(graft_tensor, dtype_code);
    MEMBER(graft_tensor, dtype_bits), MEMBER(graft_tensor, dtype_lanes);
    MEMBER(graft_tensor, device_type), MEMBER(graft_tensor, device_id);
    MEMBER(graft_tensor, shape), MEMBER(graft_tensor, stride);
    RECORD(graft_list_api);
    MEMBER(graft_list_api, count), MEMBER(graft_list_api, at);
    RECORD(graft_host);
    MEMBER(graft_host, size), MEMBER(graft_host, abi_major), MEMBER(graft_host, abi_minor);
    MEMBER(graft_host, zero), MEMBER(graft_host, name), MEMBER(graft_host, version);
    MEMBER(graft_host, query);
    RECORD(graft_job_api);
    MEMBER(graft_job_api, progress), MEMBER(graft_job_api, cancelled), MEMBER(graft_job_api, log);
    MEMBER(graft_job_api, fail), MEMBER(graft_job_api, preview);
    RECORD(graft_phase_api);
    MEMBER(graft_phase_api, begin);
    RECORD(graft_prompt_api);
    MEMBER(graft_prompt_api, prompt), MEMBER(graft_prompt_api, node_id);
    MEMBER(graft_prompt_api, extra_pnginfo);
    RECORD(graft_folders_api);
    MEMBER(graft_folders_api, resolve), MEMBER(graft_folders_api, list);
    MEMBER(graft_folders_api, reserve), MEMBER(graft_folders_api, free_text);
    MEMBER(graft_folders_api, free_names);
    RECORD(graft_ui_api);
    MEMBER(graft_ui_api, add);
    RECORD(graft_dynamic_api);
    MEMBER(graft_dynamic_api, count), MEMBER(graft_dynamic_api, name);
    RECORD(graft_expand_api);
    MEMBER(graft_expand_api, expand), MEMBER(graft_expand_api, node);
    RECORD(graft_block_api);
    MEMBER(graft_block_api, message);
    RECORD(graft_picture_api);
    MEMBER(graft_picture_api, send);
    RECORD(graft_preview_api);
    MEMBER(graft_preview_api, kind), MEMBER(graft_preview_api, wanted);
    return graft_str_take(&s);
}

static char *nodes_and_plugin(void)
{
    graft_str s = GRAFT_STR_INIT;
    RECORD(graft_input);
    MEMBER(graft_input, size), MEMBER(graft_input, flags), MEMBER(graft_input, name);
    MEMBER(graft_input, type), MEMBER(graft_input, tooltip), MEMBER(graft_input, kind);
    MEMBER(graft_input, zero), MEMBER(graft_input, initial), MEMBER(graft_input, min);
    MEMBER(graft_input, max), MEMBER(graft_input, step), MEMBER(graft_input, choices);
    MEMBER(graft_input, round), MEMBER(graft_input, when);
    RECORD(graft_output);
    MEMBER(graft_output, size), MEMBER(graft_output, flags), MEMBER(graft_output, name);
    MEMBER(graft_output, type), MEMBER(graft_output, tooltip);
    RECORD(graft_node);
    MEMBER(graft_node, size), MEMBER(graft_node, flags), MEMBER(graft_node, id);
    MEMBER(graft_node, title), MEMBER(graft_node, category), MEMBER(graft_node, description);
    MEMBER(graft_node, inputs), MEMBER(graft_node, outputs), MEMBER(graft_node, create);
    MEMBER(graft_node, destroy), MEMBER(graft_node, execute), MEMBER(graft_node, query);
    RECORD(graft_choices_api);
    MEMBER(graft_choices_api, list), MEMBER(graft_choices_api, free);
    RECORD(graft_fingerprint_api);
    MEMBER(graft_fingerprint_api, get);
    RECORD(graft_validate_api);
    MEMBER(graft_validate_api, check);
    RECORD(graft_validate2_api);
    MEMBER(graft_validate2_api, flags), MEMBER(graft_validate2_api, zero);
    MEMBER(graft_validate2_api, inputs), MEMBER(graft_validate2_api, check);
    RECORD(graft_lazy_api);
    MEMBER(graft_lazy_api, needed);
    RECORD(graft_plugin);
    MEMBER(graft_plugin, abi_major), MEMBER(graft_plugin, abi_minor), MEMBER(graft_plugin, id);
    MEMBER(graft_plugin, version), MEMBER(graft_plugin, init), MEMBER(graft_plugin, deinit);
    MEMBER(graft_plugin, node), MEMBER(graft_plugin, query);
    return graft_str_take(&s);
}

#if defined(__x86_64__)
static void is_as_committed(void)
{
    graft_err e = GRAFT_ERR_INIT;
    char *first = values_and_host(), *second = nodes_and_plugin(), *wanted = NULL;
    size_t n;
    graft_str now = GRAFT_STR_INIT;
    graft_str_printf(&now, "%s%s", first, second);
    CHECK_OK(graft_file_read(GRAFT_SOURCE_DIR "/tests/plugin/layout.txt", 1 << 20, &wanted, &n, &e),
             &e);
    CHECK_STR(now.data, wanted ? wanted : "");
    graft_free(first), graft_free(second), graft_free(wanted);
    graft_str_finish(&now);
}
#endif

static void numbers_are_fixed(void)
{
    CHECK_INT(GRAFT_ABI_MAJOR, 1);
    CHECK_INT(GRAFT_NONE, 0);
    CHECK_INT(GRAFT_OBJECT, 6);
    CHECK_INT(GRAFT_INPUT_LIST, 2048);
    CHECK_INT(GRAFT_INPUT_RAW_LINK, 4096);
    CHECK_INT(GRAFT_INPUT_EXACT, 8192);
    CHECK_INT(GRAFT_INPUT_IMAGE_OUTPUT, 16384);
    CHECK_INT(GRAFT_NODE_EXPANDS, 32);
    CHECK_INT(GRAFT_NODE_ASYNC, 64);
    CHECK_INT(GRAFT_NODE_NOT_IDEMPOTENT, 8);
    CHECK_INT(GRAFT_E_ARG, -1);
    CHECK_INT(GRAFT_E_LIMIT, -10);
    CHECK_STR(GRAFT_PLUGIN_SYMBOL, "graft_plugin_entry");
}

int main(int argc, char **argv)
{
    if (argc > 1 && strcmp(argv[1], "--print") == 0) {
        char *first = values_and_host(), *second = nodes_and_plugin();
        printf("%s%s", first, second);
        graft_free(first), graft_free(second);
        return 0;
    }
    RUN(numbers_are_fixed);
#if defined(__x86_64__)
    RUN(is_as_committed);
#else
    printf("skipped: layout.txt is of x86-64\n");
#endif
    return test_end();
}
