/* TorchCompileModel: CompileModel, for workflows that compile with PyTorch. */
#include "nodes/call/booster.h"
#include "nodes/node.h"

enum { MODEL, BACKEND };
static const graft_input *const inputs[] = {
    [MODEL] = IN_OBJECT("model", "MODEL", "The diffusion model to compile."),
    [BACKEND] = IN_CHOICE("backend", CHOICES("inductor", "cudagraphs"),
                          "Has no effect: Graft has its own compiler."),
    NULL};
static const graft_output *const outputs[] = {OUT("MODEL", "MODEL", "The compiled model."), NULL};

static graft_status run(graft_call *c)
{
    graft_model *model = NULL;
    graft_call_phase(c, "compile");
    graft_status st =
        graft_booster_apply(NULL, graft_arg_model(c, MODEL), &c->task, &model, &c->err);
    return st != GRAFT_OK ? st : graft_call_out_model(c, 0, model);
}

GRAFT_NODE(
    torch_compile_model, .id = "TorchCompileModel", .title = "TorchCompileModel",
    .category = "_for_testing", .flags = GRAFT_NODE_DEPRECATED | GRAFT_NODE_EXPERIMENTAL,
    .description = "For workflows that compile with PyTorch. In new ones use Compile Model.");
