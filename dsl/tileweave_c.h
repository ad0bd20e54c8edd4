/* The C interface: open a device, load a kernel from tile IR, a manifest or a pack, list its parameters, launch it.
 * Plain C99, for other languages to bind to; what C++ programs use is <tileweave/tileweave.h>, hence the other name.
 *
 * Every call that can fail returns a tileweave_status; tileweave_last_error() then says, for the calling thread, what
 * was asked, what was found and what to do. No C++ exception leaves these functions. Objects belong to the caller until
 * their close function is called; every close function takes NULL, too. Objects may be used from several threads at
 * once. */
#ifndef TILEWEAVE_TILEWEAVE_C_H
#define TILEWEAVE_TILEWEAVE_C_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

typedef enum tileweave_status {
  TILEWEAVE_OK = 0,
  TILEWEAVE_INVALID_ARGUMENT = 1, /* a null pointer, a number out of range, an unknown name in the call itself */
  TILEWEAVE_NOT_FOUND = 2,        /* no such file, kernel or device */
  TILEWEAVE_COMPILE_ERROR = 3,    /* text that is no kernel, or a kernel that this device cannot take */
  TILEWEAVE_LAUNCH_ERROR = 4,     /* arguments that the kernel does not take */
  TILEWEAVE_FAULT = 5,            /* the kernel ran and failed: an assertion, a checked access, a fault on the device */
  TILEWEAVE_CACHE_ERROR = 6,      /* a cache setting that cannot be honoured, or a sealed deployment's miss */
  TILEWEAVE_OUT_OF_MEMORY = 7,    /* of the host */
  TILEWEAVE_INTERNAL_ERROR = 8    /* a mistake of ours */
} tileweave_status;

/* The message of the calling thread's last failure; "" before the first. Valid until the thread's next failure. */
const char* tileweave_last_error(void);

/* Element types. The numbers are part of the interface. */
typedef enum tileweave_dtype {
  TILEWEAVE_F64 = 0,
  TILEWEAVE_F32 = 1,
  TILEWEAVE_F16 = 2,
  TILEWEAVE_BF16 = 3,
  TILEWEAVE_F8E4M3 = 4,
  TILEWEAVE_F8E5M2 = 5,
  TILEWEAVE_I8 = 6,
  TILEWEAVE_I16 = 7,
  TILEWEAVE_I32 = 8,
  TILEWEAVE_I64 = 9,
  TILEWEAVE_U8 = 10,
  TILEWEAVE_U16 = 11,
  TILEWEAVE_U32 = 12,
  TILEWEAVE_U64 = 13,
  TILEWEAVE_BOOL = 14 /* one byte */
} tileweave_dtype;

/* --- devices and streams */

typedef struct tileweave_device tileweave_device;
typedef struct tileweave_stream tileweave_stream;

/* "cpu", "cuda", "cuda:1", "interpret", "simt:sm_90a". NULL or "": what TILEWEAVE_DEVICE names, else the first usable
 * CUDA device, else the CPU. */
tileweave_status tileweave_device_open(const char* name, tileweave_device** device);
void tileweave_device_close(tileweave_device* device);
/* "NVIDIA H200", "AMD EPYC ..."; valid until the device is closed, "" for NULL. */
const char* tileweave_device_name(const tileweave_device* device);

/* A new stream; a lower priority number goes first. */
tileweave_status tileweave_stream_create(const tileweave_device* device, int priority, tileweave_stream** stream);
/* A CUstream of the caller's, never destroyed here. NULL is the legacy default stream. Host devices take NULL alone. */
tileweave_status tileweave_stream_wrap(const tileweave_device* device, void* cuda_stream, tileweave_stream** stream);
/* Waits for all work queued on the stream; reports what failed on the device since the last wait. */
tileweave_status tileweave_stream_wait(const tileweave_stream* stream);
/* Work that is pending runs to its end. */
void tileweave_stream_close(tileweave_stream* stream);

/* --- kernels */

typedef struct tileweave_kernel tileweave_kernel;

/* From tile IR text, as `tileweave compile --to=record` writes it. */
tileweave_status tileweave_kernel_from_text(const char* text, size_t bytes, tileweave_kernel** kernel);
/* From a file: tile IR, a manifest (TILEWEAVE_RECORD) or a pack. Of the file's kernels called `name` (NULL: all), that
 * with index `which`, counted in the order of their text: a kernel recorded with several sets of constants is in there
 * once for each. Its compiled code is used where the file is one of TILEWEAVE_CACHE_LAYERS. */
tileweave_status tileweave_kernel_from_file(const char* path, const char* name, int which, tileweave_kernel** kernel);
void tileweave_kernel_close(tileweave_kernel* kernel);

/* Valid until the kernel is closed; "" for NULL. */
const char* tileweave_kernel_name(const tileweave_kernel* kernel);
/* 0 for NULL. */
int tileweave_kernel_parameter_count(const tileweave_kernel* kernel);

typedef enum tileweave_kind { TILEWEAVE_VIEW = 0, TILEWEAVE_POINTER = 1, TILEWEAVE_SCALAR = 2 } tileweave_kind;

typedef struct tileweave_parameter {
  tileweave_kind kind;
  tileweave_dtype dtype; /* of the elements */
  int rank;              /* of a view; 0 otherwise */
  int is_const;          /* the kernel only reads it */
} tileweave_parameter;
/* `index` counts from 0. */
tileweave_status tileweave_kernel_parameter(const tileweave_kernel* kernel, int index, tileweave_parameter* parameter);

/* One argument of a launch: made by the functions below. Arrays are read during the call only. */
typedef struct tileweave_argument {
  tileweave_kind kind;
  tileweave_dtype dtype;
  int rank;
  void* data;             /* the element with all indices 0, on the device; for a pointer any element of the memory */
  const int64_t* extents; /* rank of them, in elements */
  const int64_t* strides; /* rank of them, in elements, any sign; NULL: row-major without gaps */
  int64_t integer;        /* the value of an integer or bool scalar; of u64 its bits */
  double real;            /* the value of a floating-point scalar, rounded once to its type */
} tileweave_argument;

/* Memory for a view, or (rank and extents are then what the pointer may reach) for a pointer parameter. */
static inline tileweave_argument tileweave_memory(tileweave_dtype dtype, void* data, int rank, const int64_t* extents,
                                                  const int64_t* strides) {
  tileweave_argument a = {TILEWEAVE_VIEW, dtype, rank, data, extents, strides, 0, 0.0};
  return a;
}
static inline tileweave_argument tileweave_integer(tileweave_dtype dtype, int64_t value) {
  tileweave_argument a = {TILEWEAVE_SCALAR, dtype, 0, NULL, NULL, NULL, value, 0.0};
  return a;
}
static inline tileweave_argument tileweave_real(tileweave_dtype dtype, double value) {
  tileweave_argument a = {TILEWEAVE_SCALAR, dtype, 0, NULL, NULL, NULL, 0, value};
  return a;
}

/* 0 everywhere: the compiler chooses. */
typedef struct tileweave_options {
  int warps;     /* a power of two up to 32 */
  int stages;    /* up to 16 */
  int fast_math; /* nonzero: relaxed */
  int checked;   /* nonzero: every access is checked against its memory */
  int overflow;  /* nonzero: signed overflow fails the launch */
} tileweave_options;

/* Runs grid[0] x grid[1] x grid[2] programs of the kernel on the stream: `count` arguments in the order of its
 * parameters. Compiles at the first launch for this device and layout of the memory, or finds the code in the cache. On
 * a host device it has run when this returns; on CUDA it is queued. `options` NULL: those in the kernel's text. */
tileweave_status tileweave_kernel_launch(const tileweave_kernel* kernel, const tileweave_stream* stream,
                                         const int64_t grid[3], const tileweave_argument* arguments, int count,
                                         const tileweave_options* options);

#ifdef __cplusplus
}
#endif

#endif
