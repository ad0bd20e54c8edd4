/* Lesson 14: kernels from C. A kernel as tile IR text, its parameters, a launch on memory of this program; errors are
 * codes with a message. Other languages bind to the same functions. */
#include <stdio.h>
#include <string.h>

#include <tileweave/tileweave_c.h>

static const char text[] =
    "func \"add_one\"(%0: view<f32, 1>) {\n"
    "  %1 = program_id {axis = 0} : i64\n"
    "  %2 = constant {value = 4} : i64\n"
    "  %3 = mul %1, %2 : i64\n"
    "  %4 = load %0, %3 {extents = [4], pad = 0} : f32[4]\n"
    "  %5 = constant {value = 1.0} : f32[4]\n"
    "  %6 = add %4, %5 : f32[4]\n"
    "  store %0, %3, %6\n"
    "}\n";

static int failed(const char *what) {
  printf("%s: %s\n", what, tileweave_last_error());
  return 1;
}

int main(void) {
  float x[6] = {0, 1, 2, 3, 4, 5};
  tileweave_device *device;
  tileweave_stream *stream;
  tileweave_kernel *kernel;
  if (tileweave_device_open("cpu", &device) != TILEWEAVE_OK) return failed("open");
  if (tileweave_stream_create(device, 0, &stream) != TILEWEAVE_OK) return failed("stream");
  if (tileweave_kernel_from_text(text, strlen(text), &kernel) != TILEWEAVE_OK) return failed("kernel");

  const int64_t extents[1] = {6}, grid[3] = {2, 1, 1};
  const tileweave_argument arguments[1] = {tileweave_memory(TILEWEAVE_F32, x, 1, extents, NULL)};
  if (tileweave_kernel_launch(kernel, stream, grid, arguments, 1, NULL) != TILEWEAVE_OK) return failed("launch");
  if (tileweave_stream_wait(stream) != TILEWEAVE_OK) return failed("wait");

  tileweave_kernel_close(kernel);
  tileweave_stream_close(stream);
  tileweave_device_close(device);
  for (int i = 0; i < 6; ++i) {
    if (x[i] != (float)(i + 1)) return printf("element %d is %g\n", i, (double)x[i]), 1;
  }
  printf("14_from_c: right\n");
  return 0;
}
