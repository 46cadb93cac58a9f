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

#define LOCKED(...) do { pthread_mutex_lock(&big_lock); __VA_ARGS__; pthread_mutex_unlock(&big_lock); } while (0)

struct fake_context;
struct fake_device {
  struct ibv_device base;
  int index;
  struct fake_context *open;
  struct fake_device *next;
};
struct fake_context { int events[2], children; struct fake_device *device; struct verbs_context v; };
struct fake_pd { struct ibv_pd base; int children; };
struct fake_mr { struct ibv_mr base; int access; struct fake_mr *next; };
struct fake_channel { struct ibv_comp_channel base; int write_end, children; };
struct fake_cq {
  struct ibv_cq base;
  int children, armed, unacknowledged;
  unsigned head, tail, size;
  struct ibv_wc *ring;
};
struct fake_recv { uint64_t id; struct ibv_sge sge; };
struct fake_qp {
  struct ibv_qp base;
  struct ibv_qp_cap cap;
  unsigned peer, qkey, head, tail;
  struct fake_recv *receives;
  struct fake_qp *next;
};

extern pthread_mutex_t big_lock;
extern struct fake_mr *regions;
extern struct fake_qp *pairs;

long *fake_setting(const char *name);
int fails(const char *name);
void born(int *parent);
int dies(int children, int *parent);
struct fake_qp *qp_by_number(unsigned number);
int fake_poll_cq(struct ibv_cq *, int, struct ibv_wc *);
int fake_req_notify_cq(struct ibv_cq *, int);
int fake_post_send(struct ibv_qp *, struct ibv_send_wr *, struct ibv_send_wr **);
int fake_post_recv(struct ibv_qp *, struct ibv_recv_wr *, struct ibv_recv_wr **);

static inline struct fake_context *context_of(struct ibv_context *c) {
  return (struct fake_context *)((char *)c - offsetof(struct fake_context, v.context));
}
