#include "base/quantity.h"

#include <stdio.h>

void graft_bytes_text(uint64_t bytes, char text[16])
{
    double v = (double)bytes;
    if (v < 999.5e3)
        snprintf(text, 16, "%.1f kB", v / 1e3);
    else if (v < 999.5e6)
        snprintf(text, 16, "%.1f MB", v / 1e6);
    else
        snprintf(text, 16, "%.2f GB", v / 1e9 < 99999.0 ? v / 1e9 : 99999.0);
}

void graft_seconds_text(double seconds, char text[16])
{
    if (seconds < 0.9995e-3)
        snprintf(text, 16, "%.0f us", seconds * 1e6);
    else if (seconds < 0.9995)
        snprintf(text, 16, "%.1f ms", seconds * 1e3);
    else
        snprintf(text, 16, "%.2f s", seconds < 999999.0 ? seconds : 999999.0);
}
