/* A locale with a decimal comma, for what must not depend on the locale. */
#ifndef GRAFT_TESTS_LOCALE_H
#define GRAFT_TESTS_LOCALE_H
#include <locale.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#define LOCALE_NAME "de_DE.UTF-8"

/* Sets it, made for this process where none is installed. False, with a line that says so, where
 * that cannot be. locale_end() goes back to the C locale in any case. */
static inline bool locale_begin(void)
{
    char folder[400], command[1000];
    if (setlocale(LC_NUMERIC, LOCALE_NAME)) return true;
    snprintf(folder, sizeof folder, "%s/locale-%ld", GRAFT_BINARY_DIR, (long)getpid());
    snprintf(command, sizeof command,
             "mkdir -p '%s' && localedef -i de_DE -f UTF-8 '%s/" LOCALE_NAME "' >/dev/null 2>&1",
             folder, folder);
    setenv("LOCPATH", folder, 1);
    if (system(command) == 0 && setlocale(LC_NUMERIC, LOCALE_NAME)) return true;
    puts("skipped: there is no locale with a decimal comma, and none can be made");
    return false;
}

static inline void locale_end(void)
{
    char command[500];
    setlocale(LC_NUMERIC, "C");
    unsetenv("LOCPATH");
    snprintf(command, sizeof command, "rm -rf '%s/locale-%ld'", GRAFT_BINARY_DIR, (long)getpid());
    if (system(command) != 0) puts("a locale was left behind");
}
#endif
