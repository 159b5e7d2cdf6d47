/* Not plugins: a library without the entry, and one in which the entry is a function. */
#ifdef FUNCTION_ENTRY
__attribute__((visibility("default"))) int graft_plugin_entry(void);
int graft_plugin_entry(void)
{
    return 1;
}
#else
int test_nothing(void);
int test_nothing(void)
{
    return 0;
}
#endif
