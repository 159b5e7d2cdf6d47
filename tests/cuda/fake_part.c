/* A part of cuDNN: there to be found. */
extern __attribute__((visibility("default"))) const int fake_cudnn_part;
const int fake_cudnn_part = 1;
