/* Every shared object that is installed exports one symbol: the plugin's entry or the kernels'. */
#include <stdlib.h>

#include "base/alloc.h"
#include "base/file.h"
#include "plugin/elf.h"
#include "tests/test.h"

static void one_symbol_each(void)
{
    static const char *const suffix[] = {".so", NULL};
    graft_err e = GRAFT_ERR_INIT;
    char **name;
    size_t count;
    CHECK_OK(graft_dir_list(GRAFT_LIB_DIR, suffix, &name, &count, &e), &e);
    if (!count) printf("skipped: no shared objects in %s yet\n", GRAFT_LIB_DIR);
    for (size_t i = 0; i < count; i++) {
        graft_elf f;
        graft_elf_symbol s;
        int exported = 0;
        char *path = graft_path_join(GRAFT_LIB_DIR, name[i]);
        const char *wanted = strncmp(name[i], "graft_kernels_", 14) == 0 ? "graft_kernels_entry"
                                                                         : "graft_plugin_entry";
        graft_status st = graft_elf_init(&f, path, &e);
        CHECK_OK(st, &e);
        for (uint64_t k = 1; st == GRAFT_OK && graft_elf_symbol_at(&f, k, &s); k++) {
            if (!s.exported) continue;
            exported++;
            CHECK_STR(s.name, wanted);
        }
        CHECK_INT(exported, 1);
        if (st == GRAFT_OK) graft_elf_finish(&f);
        graft_free(path);
    }
    graft_names_free(name, count);
}

int main(void)
{
    RUN(one_symbol_each);
    return test_end();
}
