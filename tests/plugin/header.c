/* The plugin header alone compiles as C11, C17 and C++17, with every warning an error. */
#include <stdlib.h>

#include "tests/test.h"

static int run(const char *command)
{
    return system(command);
}

static void try_language(const char *compiler, const char *language, const char *standard)
{
    char command[1024];
    snprintf(command, sizeof command, "command -v %s >/dev/null 2>&1", compiler);
    if (run(command) != 0) {
        printf("skipped: no %s here to compile the header as %s\n", compiler, standard);
        return;
    }
    snprintf(command, sizeof command,
             "printf '#include \"plugin/graft_plugin.h\"\\nextern const graft_plugin *p;\\n"
             "const graft_plugin *p = &graft_plugin_entry;\\n' | "
             "%s -x %s -std=%s -Wall -Wextra -Wpedantic -Werror -fsyntax-only -I%s -",
             compiler, language, standard, GRAFT_SOURCE_DIR);
    if (run(command) != 0) fprintf(stderr, "failed: %s\n", command);
    CHECK(run(command) == 0);
}

static void compiles_alone(void)
{
    CHECK(run("true") == 0);
    try_language("cc", "c", "c11");
    try_language("clang", "c", "c17");
    try_language("c++", "c++", "c++17");
    try_language("clang++", "c++", "c++20");
}

int main(void)
{
    RUN(compiles_alone);
    return test_end();
}
