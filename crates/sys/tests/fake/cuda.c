// NVIDIA's driver library without a GPU: "memory" is a memfd. FAKE_CUDA in the build names what goes wrong.
#define _GNU_SOURCE
#include <stddef.h>
#include <stdint.h>
#include <sys/mman.h>
#include <unistd.h>

#ifndef NO_DMABUF
#define NO_DMABUF 0
#endif
#ifndef ALLOCATE
#define ALLOCATE 0
#endif

static int contexts, allocations, pushed;
int fake_cuda_live(void) { return contexts + allocations + pushed; }

int cuInit(unsigned flags) { return flags; }
int cuDeviceGet(int *device, int ordinal) { return *device = ordinal, ordinal > 1 ? 101 : 0; }
int cuDeviceGetAttribute(int *value, int attribute, int device) { return *value = attribute == 124 && !NO_DMABUF, 0; }
int cuDevicePrimaryCtxRetain(void **context, int device) { return *context = &contexts, contexts++, 0; }
int cuDevicePrimaryCtxRelease_v2(int device) { return contexts--, 0; }
int cuCtxPushCurrent_v2(void *context) { return context == &contexts ? (pushed++, 0) : 201; }
int cuCtxPopCurrent_v2(void **context) { return *context = &contexts, pushed--, 0; }
int cuMemAlloc_v2(uint64_t *address, size_t bytes) {
  if (ALLOCATE) return ALLOCATE;
  if (!pushed) return 201;
  return *address = 0x7f0000000000, allocations++, 0;
}
int cuMemFree_v2(uint64_t address) { return pushed && address ? (allocations--, 0) : 201; }
#ifndef OLD
int cuMemGetHandleForAddressRange(void *handle, uint64_t address, size_t bytes, unsigned type, unsigned long long flags) {
  if (type != 1 || bytes % 4096 || address % 4096) return 1;
  int fd = memfd_create("gpu", 0);
  if (fd < 0 || ftruncate(fd, bytes)) return 1;
  return *(int *)handle = fd, 0;
}
#endif
int cuGetErrorName(int code, const char **name) {
  *name = code == 2 ? "CUDA_ERROR_OUT_OF_MEMORY" : code == 101 ? "CUDA_ERROR_INVALID_DEVICE" : "CUDA_ERROR_OTHER";
  return 0;
}
