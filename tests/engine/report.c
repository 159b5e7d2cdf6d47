#include "tests/engine/fixture.h"
int main(void)
{
    return 0;
}
