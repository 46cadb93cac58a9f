// What the two files of the fake libibverbs share.
#pragma once
#include <endian.h>
#include <errno.h>
#include <infiniband/verbs.h>
#include <pthread.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define PKEYS 4
#define LOCKED(...) do { pthread_mutex_lock(&big_lock); __VA_ARGS__; pthread_mutex_unlock(&big_lock); } while (0)

// A setting by its literal name: looked up once for each place that asks, so that measurements do not measure this.
#define SETTING(name) ({ \
  static long *place; \
  long *found = __atomic_load_n(&place, __ATOMIC_RELAXED); \
  if (!found) __atomic_store_n(&place, found = fake_setting(name), __ATOMIC_RELAXED); \
  found; \
})
#define fails(name) fails_with((int)*SETTING(name))

struct fake_context;
struct fake_device {
  struct ibv_device base;
  int index;
  struct fake_context *open;
  struct fake_device *next;
};
struct fake_context { int events[2], children; struct fake_device *device; struct verbs_context v; };
struct fake_pd { struct ibv_pd base; int children; };
struct fake_mr { struct ibv_mr base; int access; char *mapped; struct fake_mr *next; };  // mapped: of a dma-buf
struct fake_ah { struct ibv_ah base; struct ibv_ah_attr attr; };
struct fake_channel { struct ibv_comp_channel base; int write_end, children; };
struct fake_cq {
  union { struct ibv_cq base; struct ibv_cq_ex ex; };  // the extended one begins with the fields of the plain one
  int children, armed, unacknowledged;
  unsigned head, tail, size;
  struct ibv_wc *ring, at;
  uint64_t *stamps, at_stamp, *ready;  // ready: before this a completion is not told
};
struct fake_recv { uint64_t id; struct ibv_sge sge; };
struct fake_qp {
  struct ibv_qp base;
  struct ibv_qp_cap cap;
  struct ibv_ah_attr path;
  int pkey;
  unsigned peer, qkey, head, tail, access, reads, answers;
  struct fake_recv *receives;
  struct fake_qp *next;
};

extern pthread_mutex_t big_lock;
extern struct fake_mr *regions;
extern struct fake_qp *pairs;

long fake_get(const char *name);
long *fake_setting(const char *name);
int fails_with(int code);
void gid_at(struct ibv_context *, unsigned index, union ibv_gid *);
void record(struct ibv_context *, struct ibv_ah_attr *);
void record_pkey(struct ibv_context *, int index);
int refuses(struct ibv_context *, struct ibv_ah_attr *);
void born(int *parent);
int dies(int children, int *parent);
struct fake_qp *qp_by_number(unsigned number);
void gid_at(struct ibv_context *, unsigned index, union ibv_gid *);
int fake_poll_cq(struct ibv_cq *, int, struct ibv_wc *);
struct ibv_cq_ex *fake_create_cq_ex(struct ibv_context *, struct ibv_cq_init_attr_ex *);
int fake_req_notify_cq(struct ibv_cq *, int);
int fake_post_send(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
int fake_post_recv(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);

static inline struct fake_context *context_of(struct ibv_context *c) {
  return (struct fake_context *)((char *)c - offsetof(struct fake_context, v.context));
}
static inline int index_of(struct ibv_context *c) { return ((struct fake_device *)c->device)->index; }
static inline int lid_of(struct ibv_context *c) { return 0x10 + index_of(c); }
static inline unsigned pkey_at(int index) {
  char name[] = {'p', 'k', 'e', 'y', '_', (char)('0' + index), 0};
  return (unsigned)*fake_setting(name);
}
