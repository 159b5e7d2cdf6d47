#include "kernels/cuda/device/driver.h"

#include "kernels/cuda/device/open.h"

graft_status graft_cuda_driver_fail(const graft_cuda_driver *drv, CUresult r, const char *what,
                                    graft_err *e)
{
    const char *name = NULL, *text = NULL;
    if (drv->error_name(r, &name) != CUDA_SUCCESS || !name) name = "an unknown error";
    if (drv->error_text(r, &text) != CUDA_SUCCESS || !text) text = "no explanation";
    return graft_fail(e, r == CUDA_ERROR_OUT_OF_MEMORY ? GRAFT_E_NOMEM : GRAFT_E_DEVICE,
                      "%s: %s, %s (%d)", what, name, text, (int)r);
}

graft_status graft_cuda_driver_device(const graft_cuda_driver *drv, int index, CUdevice *out,
                                      int *count, graft_err *e)
{
    int n = 0, found = 0;
    CUresult r = drv->device_count(&n);
    if (r) return graft_cuda_driver_fail(drv, r, "counting CUDA devices", e);
    for (int i = 0; i < n; i++) {
        CUdevice d;
        int major = 0, minor = 0;
        if (drv->device_get(&d, i) ||
            drv->device_attribute(&major, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, d) ||
            drv->device_attribute(&minor, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR, d))
            continue;
        if (10 * major + minor < GRAFT_CUDA_CAPABILITY) continue;
        if (found++ == index && out) *out = d;
    }
    if (count) *count = found;
    if (found > index) return GRAFT_OK;
    return graft_fail(e, GRAFT_E_NOTFOUND,
                      "no NVIDIA GPU of compute capability 8.0 or later with number %d: %d of %d "
                      "devices are",
                      index, found, n);
}

graft_status graft_cuda_driver_open(graft_cuda_driver *out, graft_err *e)
{
#define GRAFT_CUDA_TEXT_(name)           #name
#define GRAFT_CUDA_TEXT(name)            GRAFT_CUDA_TEXT_(name)
#define GRAFT_CUDA_NAME(field, function) GRAFT_CUDA_TEXT(function),
    static const char *const names[] = {GRAFT_CUDA_DRIVER(GRAFT_CUDA_NAME) NULL};
    static const char *const files[] = {"libcuda.so.1", NULL};
    graft_dl dl;
    graft_status st = graft_cuda_open(files, &dl, e);
    if (st) return graft_err_prefix(e, st, "no NVIDIA driver");
    st = graft_cuda_symbols(&dl, names, out, "NVIDIA's driver", e);
    if (st) return st;
    out->path = graft_cuda_path(&dl);
    CUresult r = out->init(0);
    if (r == CUDA_ERROR_NO_DEVICE)
        return graft_fail(e, GRAFT_E_NOTFOUND, "no NVIDIA GPU: the driver is there and finds none");
    if (r) return graft_cuda_driver_fail(out, r, "starting NVIDIA's driver", e);
    return graft_cuda_driver_device(out, 0, NULL, NULL, e);
}
