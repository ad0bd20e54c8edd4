/* The C interface from C99: devices, kernels from text and from files, launches, and every kind of refusal.
 * Usage: c_api_test [FILE]...: each file (tile IR, manifest, pack, cache root) holds the kernel `scaled`.
 * Runs on the device that TILEWEAVE_DEVICE names; memory is the host's, so on a host device only. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <tileweave/tileweave_c.h>

static int failures = 0;

#define CHECK(condition)                                                                                   \
  do {                                                                                                     \
    if (!(condition)) {                                                                                    \
      ++failures;                                                                                          \
      printf("%s:%d: failed: %s\n  last error: %s\n", __FILE__, __LINE__, #condition, tileweave_last_error()); \
    }                                                                                                      \
  } while (0)

/* y[r, 8p + c] = x[r, 8p + c] * factor + bias, one row and eight columns a program. */
static const char scaled_text[] =
    "func \"scaled\"(%0: view<const f32, 2>, %1: view<f32, 2>, %2: f32, %3: i32) {\n"
    "  %4 = program_id {axis = 0} : i64\n"
    "  %5 = program_id {axis = 1} : i64\n"
    "  %6 = constant {value = 8} : i64\n"
    "  %7 = mul %5, %6 : i64\n"
    "  %8 = load %0, %4, %7 {extents = [1, 8], pad = 0} : f32[1,8]\n"
    "  %9 = broadcast %2 {extents = [1, 8]} : f32[1,8]\n"
    "  %10 = mul %8, %9 : f32[1,8]\n"
    "  %11 = convert %3 : f32\n"
    "  %12 = broadcast %11 {extents = [1, 8]} : f32[1,8]\n"
    "  %13 = add %10, %12 : f32[1,8]\n"
    "  store %1, %4, %7, %13\n"
    "}\n";

static const char gather_text[] =
    "func \"gather\"(%0: ptr<const i32>, %1: view<i32, 1>, %2: i64 {constant = 3}) {\n"
    "  %3 = constant {value = 0} : i64\n"
    "  %4 = iota {start = 0} : i64[4]\n"
    "  %5 = broadcast %2 {extents = [4]} : i64[4]\n"
    "  %6 = mul %4, %5 : i64[4]\n"
    "  %7 = broadcast %0 {extents = [4]} : ptr<const i32>[4]\n"
    "  %8 = ptr_add %7, %6 : ptr<const i32>[4]\n"
    "  %9 = load_ptr %8 {pad = 0} : i32[4]\n"
    "  store %1, %3, %9\n"
    "}\n";

static tileweave_device *device = NULL;
static tileweave_stream *stream = NULL;

static int said(const char *part) { return strstr(tileweave_last_error(), part) != NULL; }

static tileweave_kernel *kernel_of(const char *text) {
  tileweave_kernel *kernel = NULL;
  CHECK(tileweave_kernel_from_text(text, strlen(text), &kernel) == TILEWEAVE_OK);
  return kernel;
}

/* A transposed input and an output with a pitch: 3 rows of 10. */
static void run_scaled(const tileweave_kernel *kernel) {
  float x[10 * 3], y[3 * 12];
  const int64_t extents[2] = {3, 10}, transposed[2] = {1, 3}, pitched[2] = {12, 1}, grid[3] = {3, 2, 1};
  tileweave_argument a[4];
  int r, c, wrong = 0;
  for (r = 0; r < 30; ++r) x[r] = (float)r;
  for (r = 0; r < 36; ++r) y[r] = -1.0f;
  a[0] = tileweave_memory(TILEWEAVE_F32, x, 2, extents, transposed);
  a[1] = tileweave_memory(TILEWEAVE_F32, y, 2, extents, pitched);
  a[2] = tileweave_real(TILEWEAVE_F32, 0.5);
  a[3] = tileweave_integer(TILEWEAVE_I32, -2);
  CHECK(tileweave_kernel_launch(kernel, stream, grid, a, 4, NULL) == TILEWEAVE_OK);
  CHECK(tileweave_stream_wait(stream) == TILEWEAVE_OK);
  for (r = 0; r < 3; ++r) {
    for (c = 0; c < 12; ++c) wrong += y[r * 12 + c] != (c < 10 ? (float)(c * 3 + r) * 0.5f - 2.0f : -1.0f);
  }
  CHECK(wrong == 0);
}

static void check_parameters(const tileweave_kernel *kernel) {
  tileweave_parameter p;
  CHECK(strcmp(tileweave_kernel_name(kernel), "scaled") == 0);
  CHECK(tileweave_kernel_parameter_count(kernel) == 4);
  CHECK(tileweave_kernel_parameter(kernel, 0, &p) == TILEWEAVE_OK);
  CHECK(p.kind == TILEWEAVE_VIEW && p.dtype == TILEWEAVE_F32 && p.rank == 2 && p.is_const);
  CHECK(tileweave_kernel_parameter(kernel, 1, &p) == TILEWEAVE_OK);
  CHECK(p.kind == TILEWEAVE_VIEW && !p.is_const);
  CHECK(tileweave_kernel_parameter(kernel, 3, &p) == TILEWEAVE_OK);
  CHECK(p.kind == TILEWEAVE_SCALAR && p.dtype == TILEWEAVE_I32 && p.rank == 0);
  CHECK(tileweave_kernel_parameter(kernel, 4, &p) == TILEWEAVE_INVALID_ARGUMENT);
  CHECK(said("kernel 'scaled' has 4 parameters, number 4 (from 0) is asked for"));
  CHECK(tileweave_kernel_parameter(kernel, -1, &p) == TILEWEAVE_INVALID_ARGUMENT);
  CHECK(tileweave_kernel_parameter(NULL, 0, &p) == TILEWEAVE_INVALID_ARGUMENT);
}

static void check_refusals(const tileweave_kernel *kernel) {
  double wide[4] = {0, 0, 0, 0};
  float x[4] = {1, 2, 3, 4};
  const int64_t extents[7] = {1, 4, 1, 1, 1, 1, 1}, negative[2] = {-1, 4}, huge[2] = {INT64_MAX, INT64_MAX};
  const int64_t grid[3] = {1, 1, 1}, below[3] = {-1, 1, 1};
  tileweave_options options = {3, 0, 0, 0, 0};
  tileweave_argument good[4], a[4];
  good[0] = tileweave_memory(TILEWEAVE_F32, x, 2, extents, NULL);
  good[1] = good[0];
  good[2] = tileweave_real(TILEWEAVE_F32, 1.0);
  good[3] = tileweave_integer(TILEWEAVE_I32, 0);
#define REFUSED(status, text)                                                             \
  do {                                                                                    \
    CHECK(tileweave_kernel_launch(kernel, stream, grid, a, 4, NULL) == (status));         \
    CHECK(said(text));                                                                    \
    memcpy(a, good, sizeof a);                                                            \
  } while (0)
  memcpy(a, good, sizeof a);
  CHECK(tileweave_kernel_launch(kernel, stream, grid, a, 4, NULL) == TILEWEAVE_OK);
  a[0] = tileweave_memory(TILEWEAVE_F64, wide, 2, extents, NULL);
  REFUSED(TILEWEAVE_LAUNCH_ERROR, "kernel 'scaled': argument 1 is of f64, its parameter is view<const f32, 2>");
  a[0].dtype = (tileweave_dtype)99;
  REFUSED(TILEWEAVE_LAUNCH_ERROR, "argument 1 is of element type number 99");
  a[0] = tileweave_memory(TILEWEAVE_F32, x, 1, extents + 1, NULL);
  REFUSED(TILEWEAVE_LAUNCH_ERROR, "argument 1 has 1 axes, extents {4}; its parameter is a view of rank 2");
  a[0].rank = 7;
  REFUSED(TILEWEAVE_LAUNCH_ERROR, "argument 1 has rank 7");
  a[0].extents = NULL;
  REFUSED(TILEWEAVE_LAUNCH_ERROR, "argument 1 has no extents");
  a[0].extents = negative;
  REFUSED(TILEWEAVE_LAUNCH_ERROR, "-1");
  a[0].extents = huge;
  REFUSED(TILEWEAVE_LAUNCH_ERROR, "9223372036854775807");
  a[1].data = NULL;
  REFUSED(TILEWEAVE_LAUNCH_ERROR, "the pointer is null, but the extents are {1, 4}\n  in kernel 'scaled', argument 2");
  a[0] = good[3];
  REFUSED(TILEWEAVE_LAUNCH_ERROR, "argument 1 is a number, its parameter is view<const f32, 2>");
  a[2] = good[0];
  REFUSED(TILEWEAVE_LAUNCH_ERROR, "argument 3 is memory, its parameter is f32");
  a[3] = tileweave_integer(TILEWEAVE_I32, INT64_C(1) << 31);
  REFUSED(TILEWEAVE_LAUNCH_ERROR, "argument 4 is 2147483648, which does not fit i32");
#undef REFUSED
  CHECK(tileweave_kernel_launch(kernel, stream, grid, a, 3, NULL) == TILEWEAVE_LAUNCH_ERROR);
  CHECK(said("kernel 'scaled' takes 4 arguments, got 3"));
  CHECK(tileweave_kernel_launch(kernel, stream, below, a, 4, NULL) == TILEWEAVE_LAUNCH_ERROR);
  CHECK(said("the grid has -1 programs along axis 0"));
  CHECK(tileweave_kernel_launch(kernel, stream, grid, a, 4, &options) == TILEWEAVE_LAUNCH_ERROR);
  CHECK(said("warps is not 0 or a power of two up to 32"));
  options.warps = 1 << 20;
  CHECK(tileweave_kernel_launch(kernel, stream, grid, a, 4, &options) == TILEWEAVE_LAUNCH_ERROR);
  CHECK(tileweave_kernel_launch(NULL, stream, grid, a, 4, NULL) == TILEWEAVE_INVALID_ARGUMENT);
  CHECK(said("tileweave_kernel_launch: kernel is null"));
  CHECK(tileweave_kernel_launch(kernel, NULL, grid, a, 4, NULL) == TILEWEAVE_INVALID_ARGUMENT);
  CHECK(said("stream is null"));
  CHECK(tileweave_kernel_launch(kernel, stream, NULL, a, 4, NULL) == TILEWEAVE_INVALID_ARGUMENT);
  CHECK(tileweave_kernel_launch(kernel, stream, grid, NULL, 4, NULL) == TILEWEAVE_INVALID_ARGUMENT);
}

static void check_pointers(void) {
  int32_t x[10], y[4] = {0, 0, 0, 0};
  const int64_t ten = 10, few = 9, four = 4, grid[3] = {1, 1, 1};
  tileweave_options checked = {0, 0, 0, 1, 0};
  tileweave_kernel *kernel = kernel_of(gather_text);
  tileweave_argument a[3];
  int i;
  for (i = 0; i < 10; ++i) x[i] = 100 + i;
  a[0] = tileweave_memory(TILEWEAVE_I32, x, 1, &ten, NULL);
  a[1] = tileweave_memory(TILEWEAVE_I32, y, 1, &four, NULL);
  a[2] = tileweave_integer(TILEWEAVE_I64, 3);
  CHECK(tileweave_kernel_launch(kernel, stream, grid, a, 3, NULL) == TILEWEAVE_OK);
  CHECK(y[0] == 100 && y[1] == 103 && y[2] == 106 && y[3] == 109);
  CHECK(tileweave_kernel_launch(kernel, stream, grid, a, 3, &checked) == TILEWEAVE_OK);
  a[0].extents = &few;
  CHECK(tileweave_kernel_launch(kernel, stream, grid, a, 3, &checked) == TILEWEAVE_FAULT ||
        tileweave_stream_wait(stream) == TILEWEAVE_FAULT);
  CHECK(said("index 9, extent 9"));
  a[2] = tileweave_integer(TILEWEAVE_I64, 2);
  CHECK(tileweave_kernel_launch(kernel, stream, grid, a, 3, NULL) == TILEWEAVE_LAUNCH_ERROR);
  CHECK(said("argument 3 differs from the constant that this kernel was recorded for"));
  tileweave_kernel_close(kernel);
}

static void check_loading(void) {
  tileweave_kernel *kernel = (tileweave_kernel *)&failures;
  tileweave_device *none = (tileweave_device *)&failures;
  const char wrong[] = "func \"k\"() {\n  %1 = frobnicate : f32\n}\n";
  CHECK(tileweave_kernel_from_text(wrong, strlen(wrong), &kernel) == TILEWEAVE_COMPILE_ERROR);
  CHECK(kernel == NULL);
  CHECK(said("tile IR:2: error: there is no operation 'frobnicate'"));
  CHECK(tileweave_kernel_from_text(NULL, 0, &kernel) == TILEWEAVE_INVALID_ARGUMENT);
  CHECK(tileweave_kernel_from_text(wrong, 1, NULL) == TILEWEAVE_INVALID_ARGUMENT);
  CHECK(tileweave_kernel_from_file("/nonexistent/kernel.tir", NULL, 0, &kernel) == TILEWEAVE_NOT_FOUND);
  CHECK(said("there is no file /nonexistent/kernel.tir"));
  CHECK(tileweave_kernel_from_file(NULL, NULL, 0, &kernel) == TILEWEAVE_INVALID_ARGUMENT);
  CHECK(tileweave_device_open("gpu", &none) == TILEWEAVE_INVALID_ARGUMENT);
  CHECK(none == NULL);
  CHECK(said("there is no device 'gpu': cpu, cuda, cuda:<index>, interpret or simt:<target>"));
  CHECK(tileweave_device_open("cuda:-1", &none) == TILEWEAVE_INVALID_ARGUMENT ||
        tileweave_device_open("cuda:-1", &none) == TILEWEAVE_NOT_FOUND);
  CHECK(tileweave_device_open("cuda:4000", &none) == TILEWEAVE_NOT_FOUND);
  CHECK(tileweave_device_open("cpu", NULL) == TILEWEAVE_INVALID_ARGUMENT);
  CHECK(tileweave_stream_wait(NULL) == TILEWEAVE_INVALID_ARGUMENT);
  tileweave_kernel_close(NULL);
  tileweave_stream_close(NULL);
  tileweave_device_close(NULL);
  CHECK(tileweave_kernel_parameter_count(NULL) == 0);
  CHECK(strcmp(tileweave_kernel_name(NULL), "") == 0);
}

/* Pages that are resident, or 0 where the system does not say. */
static long resident_pages(void) {
  long size = 0, resident = 0;
  FILE *f = fopen("/proc/self/statm", "r");
  if (f == NULL) return 0;
  if (fscanf(f, "%ld %ld", &size, &resident) != 2) resident = 0;
  fclose(f);
  return resident;
}

/* Every object is freed when it is closed, and so is every message: 3,000 rounds take no more memory than 300. */
static void check_leaks(void) {
  long before = 0;
  int i;
  for (i = 0; i < 3300; ++i) {
    tileweave_device *again = NULL;
    tileweave_stream *other = NULL;
    tileweave_kernel *kernel = kernel_of(gather_text), *none = NULL;
    if (i == 300) before = resident_pages();
    CHECK(tileweave_device_open(NULL, &again) == TILEWEAVE_OK);
    CHECK(tileweave_stream_create(again, 0, &other) == TILEWEAVE_OK);
    CHECK(tileweave_kernel_from_text("func", 4, &none) == TILEWEAVE_COMPILE_ERROR);
    tileweave_kernel_close(kernel);
    tileweave_stream_close(other);
    tileweave_device_close(again);
  }
  CHECK(resident_pages() - before < 512); /* 2 MiB; a leak of 1 KiB a round would be 3 */
}

static void check_file(const char *path) {
  tileweave_kernel *kernel = NULL;
  CHECK(tileweave_kernel_from_file(path, "scaled", 0, &kernel) == TILEWEAVE_OK);
  if (kernel == NULL) return;
  check_parameters(kernel);
  run_scaled(kernel);
  tileweave_kernel_close(kernel);
  CHECK(tileweave_kernel_from_file(path, "scaled", 1, &kernel) == TILEWEAVE_NOT_FOUND);
  CHECK(said("holds 1 kernels called 'scaled', number 1 (from 0) is asked for"));
  CHECK(tileweave_kernel_from_file(path, "other", 0, &kernel) == TILEWEAVE_NOT_FOUND);
  CHECK(said("holds 0 kernels called 'other'"));
}

int main(int argc, char **argv) {
  tileweave_kernel *kernel;
  int i;
  CHECK(strcmp(tileweave_last_error(), "") == 0);
  CHECK(tileweave_device_open(NULL, &device) == TILEWEAVE_OK);
  CHECK(strlen(tileweave_device_name(device)) > 0);
  CHECK(tileweave_stream_create(device, 0, &stream) == TILEWEAVE_OK);
  if (device == NULL || stream == NULL) return 1;
  kernel = kernel_of(scaled_text);
  check_parameters(kernel);
  run_scaled(kernel);
  check_refusals(kernel);
  check_pointers();
  check_loading();
  check_leaks();
  for (i = 1; i < argc; ++i) check_file(argv[i]);
  tileweave_kernel_close(kernel);
  tileweave_stream_close(stream);
  tileweave_device_close(device);
  printf("C interface: %d failures, %d files\n", failures, argc - 1);
  return failures == 0 ? 0 : 1;
}
