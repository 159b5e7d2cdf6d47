/* A plugin that is right but for the one rule that BAD_* breaks. Its constructor writes a mark, so
 * that a test can tell whether any of its code ran. */
#include <stdint.h>
#include <stdlib.h>

#include "plugin/graft_plugin.h"

#define UNUSED __attribute__((unused)) /* by the variant that leaves it out */

__attribute__((constructor)) static void mark(void)
{
    setenv("GRAFT_TEST_CODE_RAN", "1", 1);
}

static const char *const no_choices[] = {NULL};
UNUSED static const char *const choices[] = {"a", "b", NULL};
UNUSED static const graft_input count = {
#ifdef BAD_INPUT_SIZE
    .size = 8,
#else
    .size = sizeof(graft_input),
#endif
#ifdef BAD_LAZY
    .flags = GRAFT_INPUT_LAZY,
#elif defined(BAD_MANY)
    .flags = GRAFT_INPUT_MANY | GRAFT_INPUT_OPTIONAL,
#elif defined(BAD_SERIES)
    .flags = GRAFT_INPUT_SERIES | GRAFT_INPUT_OPTIONAL,
#endif
    .name = "count",
#ifndef BAD_INPUT_TYPE
    .type = "INT",
#endif
    .tooltip = "A number.",
#ifdef BAD_KIND
    .kind = GRAFT_FLOAT,
#else
    .kind = GRAFT_INT,
#endif
#ifdef BAD_RANGE
    .min = 5,
    .max = 1,
#else
    .min = 0,
    .max = 9,
#endif
#ifdef BAD_INITIAL
    .initial.i = 10,
#endif
};
UNUSED static const graft_input choice = {
    .size = sizeof(graft_input),
#ifdef BAD_WHEN
    .when = "count=1",
#endif
    .name = "choice",
    .type = "COMBO",
    .tooltip = "One of two.",
    .kind = GRAFT_CHOICE,
#ifdef BAD_CHOICES
    .choices = NULL,
#else
    .choices = choices,
#endif
};
UNUSED static const graft_input *const inputs[] = {&count, &choice, NULL};
UNUSED static const graft_output number = {
#ifdef BAD_OUTPUT_SIZE
    .size = 4,
#else
    .size = sizeof(graft_output),
#endif
    .name = "number",
    .type = "INT",
    .tooltip = "A number.",
};
UNUSED static const graft_output *const outputs[] = {&number, NULL};

UNUSED static graft_status create(const graft_host *h, void **self)
{
    (void)h;
#ifdef BAD_SHARED_SELF
    *self = (void *)(uintptr_t)no_choices;
#else
    (void)no_choices;
    *self = NULL;
#endif
    return GRAFT_OK;
}

static void destroy(void *self)
{
    (void)self;
}

UNUSED static graft_status execute(void *self, graft_job *j, const graft_arg *in, graft_arg *out)
{
    (void)self, (void)j;
    out[0].kind = GRAFT_INT;
    out[0].u.i = in[0].u.i + 1;
    return GRAFT_OK;
}

UNUSED static const graft_node the_node = {
#ifdef BAD_NODE_SIZE
    .size = 16,
#else
    .size = sizeof(graft_node),
#endif
#ifndef BAD_NODE_ID
    .id = "TestNode",
#endif
    .title = "Test",
#ifndef BAD_CATEGORY
    .category = "test",
#endif
#ifdef BAD_TEXT
    .description = "\xe0\x80\xaf", /* '/' written too long, which is no UTF-8 */
#else
    .description = "Adds one.",
#endif
#ifndef BAD_INPUTS
    .inputs = inputs,
#endif
#ifndef BAD_OUTPUTS
    .outputs = outputs,
#endif
#ifndef BAD_CREATE
    .create = create,
#endif
    .destroy = destroy,
#ifndef BAD_EXECUTE
    .execute = execute,
#endif
};

UNUSED static graft_status init(const graft_host *h, const char *dir)
{
    (void)h, (void)dir;
#ifdef BAD_INIT
    return GRAFT_E_DEVICE;
#else
    return GRAFT_OK;
#endif
}

UNUSED static void deinit(void) {}

UNUSED static const graft_node *node(uint32_t i)
{
#if defined BAD_ENDLESS
    (void)i;
    return &the_node;
#elif defined BAD_TWICE
    return i < 2 ? &the_node : NULL;
#else
    return i < 1 ? &the_node : NULL;
#endif
}

#ifdef BAD_EXPORT
GRAFT_EXPORT int test_helper(void);
int test_helper(void)
{
    return 1;
}
#endif

#ifdef BAD_SMALL
/* As if an older layout had fewer members. */
extern GRAFT_EXPORT const uint32_t small_entry[2] __asm__("graft_plugin_entry");
const uint32_t small_entry[2] = {GRAFT_ABI_MAJOR, GRAFT_ABI_MINOR};
#else
const graft_plugin graft_plugin_entry = {
#ifdef BAD_MAJOR
    .abi_major = GRAFT_ABI_MAJOR + 1,
#else
    .abi_major = GRAFT_ABI_MAJOR,
#endif
#ifdef BAD_MINOR
    .abi_minor = GRAFT_ABI_MINOR + 1,
#else
    .abi_minor = GRAFT_ABI_MINOR,
#endif
#ifndef BAD_ID
    .id = "test",
#endif
    .version = "1",
#ifndef BAD_NO_INIT
    .init = init,
#endif
    .deinit = deinit,
    .node = node,
};
#endif
