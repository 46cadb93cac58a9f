// The fake libibverbs' queues: completion channels and queues, queue pairs, and how messages reach their peer.
#include "fake.h"
#include <time.h>

static uint64_t sent_at;  // by the machine's clock: the message that is on its way, under the big lock

// ---- completion channels and queues ---------------------------------------------------------------------------------

struct ibv_comp_channel *ibv_create_comp_channel(struct ibv_context *c) {
  int ends[2];
  if (fails("create_comp_channel") || pipe(ends)) return NULL;
  struct fake_channel *channel = calloc(1, sizeof *channel);
  channel->base.context = c;
  channel->base.fd = ends[0];
  channel->write_end = ends[1];
  LOCKED(born(&context_of(c)->children));
  return &channel->base;
}

int ibv_destroy_comp_channel(struct ibv_comp_channel *base) {
  struct fake_channel *channel = (struct fake_channel *)base;
  int code;
  LOCKED(code = dies(channel->children, &context_of(base->context)->children));
  if (code) return code;
  close(base->fd);
  close(channel->write_end);
  free(channel);
  return 0;
}

struct ibv_cq *ibv_create_cq(struct ibv_context *c, int cqe, void *user, struct ibv_comp_channel *channel, int vector) {
  if (fails("create_cq")) return NULL;
  struct fake_cq *cq = calloc(1, sizeof *cq);
  cq->base = (struct ibv_cq){.context = c, .channel = channel, .cq_context = user, .cqe = cqe};
  cq->size = cqe + 1;
  cq->ring = calloc(cq->size, sizeof *cq->ring);
  cq->stamps = calloc(cq->size, sizeof *cq->stamps);
  cq->ready = calloc(cq->size, sizeof *cq->ready);
  LOCKED({
    born(&context_of(c)->children);
    if (channel) ++((struct fake_channel *)channel)->children;
  });
  return &cq->base;
}

int ibv_destroy_cq(struct ibv_cq *base) {
  struct fake_cq *cq = (struct fake_cq *)base;
  int code;
  LOCKED({
    code = dies(cq->children + cq->unacknowledged, &context_of(base->context)->children);
    if (!code && base->channel) --((struct fake_channel *)base->channel)->children;
  });
  if (code) return code;
  free(cq->ring);
  free(cq->stamps);
  free(cq->ready);
  free(cq);
  return 0;
}

int fake_req_notify_cq(struct ibv_cq *base, int solicited) {
  if (fails("req_notify_cq")) return errno;
  LOCKED(((struct fake_cq *)base)->armed = 1);
  return 0;
}

int ibv_get_cq_event(struct ibv_comp_channel *channel, struct ibv_cq **cq, void **user) {
  if (fails("get_cq_event")) return -1;
  if (read(channel->fd, cq, sizeof *cq) != sizeof *cq) return -1;
  *user = (*cq)->cq_context;
  LOCKED(++((struct fake_cq *)*cq)->unacknowledged);
  return 0;
}

void ibv_ack_cq_events(struct ibv_cq *cq, unsigned int n) { LOCKED(((struct fake_cq *)cq)->unacknowledged -= n); }

int fake_poll_cq(struct ibv_cq *base, int room, struct ibv_wc *out) {
  struct fake_cq *cq = (struct fake_cq *)base;
  int n = 0;
  if (*SETTING("poll_cq")) return -(int)*SETTING("poll_cq");
  LOCKED(while (n < room && cq->head != cq->tail) out[n++] = cq->ring[cq->head++ % cq->size]);
  return n;
}

// ---- stamped queues: "stamps" = 1 raw ticks, 2 nanoseconds as well, 0 none; "stampless" has a bit for each device without --------

static uint64_t machine_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return now.tv_sec * 1000000000ULL + now.tv_nsec;
}

// A device's clock: "stamp" counted on by "stamp_step" per completion, or where there is no step the machine's clock at
// "stamp_khz" ahead by "stamp" and on each device by some more. A message is received "stamp_wire" ticks after it was sent. A lying clock runs at
// "stamp_runs_khz" in truth, or stands still at "stamp_stuck" - 1. Sends are told of after "late_sends_us".
static uint64_t stamp(struct ibv_cq *cq, int received) {
  long step = *SETTING("stamp_step"), stuck = *SETTING("stamp_stuck");
  if (step) return (uint64_t)(*SETTING("stamp") += step);
  if (stuck || !*SETTING("stamps")) return stuck ? stuck - 1 : 0;
  uint64_t khz = (uint64_t)*SETTING("stamp_runs_khz") ?: *SETTING("stamp_khz"), mask = *SETTING("stamp_mask") ?: -1;
  uint64_t ns = sent_at + (index_of(cq->context) + 1) * 77000000000ULL;
  return ((uint64_t)((unsigned __int128)ns * khz / 1000000) + *SETTING("stamp") + received * *SETTING("stamp_wire")) & mask;
}

static int take(struct ibv_cq_ex *ex) {
  struct fake_cq *cq = (struct fake_cq *)ex;
  int failed = (int)*SETTING("poll_cq"), found;
  LOCKED({
    uint64_t ready = cq->ready[cq->head % cq->size];
    found = !failed && cq->head != cq->tail && (!ready || machine_ns() >= ready);
    if (found) { cq->at_stamp = cq->stamps[cq->head % cq->size]; cq->at = cq->ring[cq->head++ % cq->size]; }
  });
  if (!found) return failed ? failed : ENOENT;
  ex->status = cq->at.status;
  ex->wr_id = cq->at.wr_id;
  return 0;
}
static int start_poll(struct ibv_cq_ex *ex, struct ibv_poll_cq_attr *attr) {
  int code = attr->comp_mask ? EINVAL : take(ex);
  if (!code) LOCKED(++*SETTING("polls_open"));
  return code;
}
static void end_poll(struct ibv_cq_ex *ex) { LOCKED(--*SETTING("polls_open")); }
static enum ibv_wc_opcode read_opcode(struct ibv_cq_ex *ex) { return ((struct fake_cq *)ex)->at.opcode; }
static uint32_t read_vendor_err(struct ibv_cq_ex *ex) { return ((struct fake_cq *)ex)->at.vendor_err; }
static uint32_t read_byte_len(struct ibv_cq_ex *ex) { return ((struct fake_cq *)ex)->at.byte_len; }
static uint32_t read_qp_num(struct ibv_cq_ex *ex) { return ((struct fake_cq *)ex)->at.qp_num; }
static uint32_t read_slid(struct ibv_cq_ex *ex) { return ((struct fake_cq *)ex)->at.slid; }
static uint32_t read_src_qp(struct ibv_cq_ex *ex) { return ((struct fake_cq *)ex)->at.src_qp; }
static unsigned read_wc_flags(struct ibv_cq_ex *ex) { return ((struct fake_cq *)ex)->at.wc_flags; }
static uint64_t read_stamp(struct ibv_cq_ex *ex) { return ((struct fake_cq *)ex)->at_stamp; }

struct ibv_cq_ex *fake_create_cq_ex(struct ibv_context *c, struct ibv_cq_init_attr_ex *init) {
  long can = fake_get("stampless") >> index_of(c) & 1 ? 0 : fake_get("stamps");
  uint64_t allowed = IBV_WC_STANDARD_FLAGS | (can ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP : 0) |
                     (can > 1 ? IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK : 0);
  if (fails("create_cq_ex")) return NULL;
  if (init->wc_flags & ~allowed) return errno = EOPNOTSUPP, NULL;
  struct fake_cq *cq = (struct fake_cq *)ibv_create_cq(c, init->cqe, init->cq_context, init->channel, init->comp_vector);
  if (!cq) return NULL;
  struct ibv_cq_ex *ex = &cq->ex;
  ex->start_poll = start_poll, ex->next_poll = take, ex->end_poll = end_poll;
  ex->read_opcode = read_opcode, ex->read_vendor_err = read_vendor_err, ex->read_byte_len = read_byte_len;
  ex->read_qp_num = read_qp_num, ex->read_src_qp = read_src_qp, ex->read_wc_flags = read_wc_flags;
  if (init->wc_flags & IBV_WC_EX_WITH_SLID) ex->read_slid = read_slid;
  if (init->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP) ex->read_completion_ts = read_stamp;
  if (init->wc_flags & IBV_WC_EX_WITH_COMPLETION_TIMESTAMP_WALLCLOCK) ex->read_completion_wallclock_ns = read_stamp;
  return ex;
}

static void complete(struct ibv_cq *base, struct ibv_wc wc) {
  struct fake_cq *cq = (struct fake_cq *)base;
  if (cq->tail - cq->head >= cq->size) abort();  // a real queue would overrun
  cq->stamps[cq->tail % cq->size] = stamp(base, wc.opcode == IBV_WC_RECV);
  long late = wc.opcode == IBV_WC_SEND ? *SETTING("late_sends_us") : 0;
  cq->ready[cq->tail % cq->size] = late ? sent_at + 1000 * late : 0;
  cq->ring[cq->tail++ % cq->size] = wc;
  if (cq->armed && base->channel) {
    cq->armed = 0;
    if (write(((struct fake_channel *)base->channel)->write_end, &base, sizeof base) != sizeof base) abort();
  }
}

// ---- queue pairs ----------------------------------------------------------------------------------------------------

struct fake_qp *qp_by_number(unsigned number) {
  for (struct fake_qp *qp = pairs; qp; qp = qp->next)
    if (qp->base.qp_num == number) return qp;
  return NULL;
}

struct ibv_qp *ibv_create_qp(struct ibv_pd *pd, struct ibv_qp_init_attr *init) {
  static unsigned numbers = 100;
  if (fails("create_qp")) return NULL;
  struct fake_qp *qp = calloc(1, sizeof *qp);
  qp->base = (struct ibv_qp){.context = pd->context, .pd = pd, .send_cq = init->send_cq, .recv_cq = init->recv_cq,
                             .qp_type = init->qp_type};
  qp->cap = init->cap;
  qp->receives = calloc(init->cap.max_recv_wr + 1, sizeof *qp->receives);
  LOCKED({
    qp->base.qp_num = ++numbers;
    born(&((struct fake_pd *)pd)->children);
    ++((struct fake_cq *)init->send_cq)->children;
    ++((struct fake_cq *)init->recv_cq)->children;
    qp->next = pairs;
    pairs = qp;
    ++*SETTING("pairs");
  });
  return &qp->base;
}

int ibv_destroy_qp(struct ibv_qp *base) {
  struct fake_qp *qp = (struct fake_qp *)base;
  LOCKED({
    for (struct fake_qp **p = &pairs; *p; p = &(*p)->next)
      if (*p == qp) { *p = qp->next; break; }
    --*SETTING("pairs");
    --((struct fake_cq *)base->send_cq)->children;
    --((struct fake_cq *)base->recv_cq)->children;
    dies(0, &((struct fake_pd *)base->pd)->children);
  });
  free(qp->receives);
  free(qp);
  return 0;
}

// Which attributes each step must name (manual page of ibv_modify_qp).
static int wanted(enum ibv_qp_type type, enum ibv_qp_state state) {
  int rc = type == IBV_QPT_RC;
  switch (state) {
  case IBV_QPS_INIT: return IBV_QP_STATE | IBV_QP_PKEY_INDEX | IBV_QP_PORT | (rc ? IBV_QP_ACCESS_FLAGS : IBV_QP_QKEY);
  case IBV_QPS_RTR:
    return IBV_QP_STATE | (rc ? IBV_QP_AV | IBV_QP_PATH_MTU | IBV_QP_DEST_QPN | IBV_QP_RQ_PSN | IBV_QP_MAX_DEST_RD_ATOMIC |
                                    IBV_QP_MIN_RNR_TIMER : 0);
  case IBV_QPS_RTS:
    return IBV_QP_STATE | IBV_QP_SQ_PSN |
           (rc ? IBV_QP_TIMEOUT | IBV_QP_RETRY_CNT | IBV_QP_RNR_RETRY | IBV_QP_MAX_QP_RD_ATOMIC : 0);
  default: return IBV_QP_STATE;
  }
}

static void flush(struct fake_qp *qp) {
  qp->base.state = IBV_QPS_ERR;
  for (; qp->head != qp->tail; qp->head++)
    complete(qp->base.recv_cq, (struct ibv_wc){.wr_id = qp->receives[qp->head % (qp->cap.max_recv_wr + 1)].id,
                                               .status = IBV_WC_WR_FLUSH_ERR, .opcode = IBV_WC_RECV, .qp_num = qp->base.qp_num});
}

int ibv_modify_qp(struct ibv_qp *base, struct ibv_qp_attr *attr, int mask) {
  struct fake_qp *qp = (struct fake_qp *)base;
  enum ibv_qp_state state = attr->qp_state;
  int slow = (int)*SETTING("modify_qp_rtr_ms");
  if (state == IBV_QPS_INIT && fails("modify_qp_init")) return errno;
  if (state == IBV_QPS_RTR && slow) usleep(1000 * slow);
  if (state == IBV_QPS_RTR && fails("modify_qp_rtr")) return errno;
  if (state == IBV_QPS_RTS && fails("modify_qp_rts")) return errno;
  if (mask != wanted(base->qp_type, state)) return EINVAL;
  if (state != IBV_QPS_ERR && state != base->state + 1) return EINVAL;
  if (mask & IBV_QP_AV && refuses(base->context, &attr->ah_attr)) return EINVAL;
  if (mask & IBV_QP_PKEY_INDEX && attr->pkey_index >= (fake_get("infiniband") ? PKEYS : 1)) return EINVAL;
  LOCKED({
    base->state = state;
    if (mask & IBV_QP_DEST_QPN) qp->peer = attr->dest_qp_num;
    if (mask & IBV_QP_AV) {
      *SETTING("sgid_index") = attr->ah_attr.grh.sgid_index;
      qp->path = attr->ah_attr;
      record(base->context, &attr->ah_attr);
    }
    if (mask & IBV_QP_PKEY_INDEX) { qp->pkey = attr->pkey_index; record_pkey(base->context, attr->pkey_index); }
    if (mask & IBV_QP_PATH_MTU) *SETTING("path_mtu") = attr->path_mtu;
    if (mask & IBV_QP_QKEY) qp->qkey = attr->qkey;
    if (mask & IBV_QP_ACCESS_FLAGS) qp->access = attr->qp_access_flags;
    if (mask & IBV_QP_MAX_QP_RD_ATOMIC) qp->reads = attr->max_rd_atomic;
    if (mask & IBV_QP_MAX_DEST_RD_ATOMIC) qp->answers = attr->max_dest_rd_atomic;
    if (state == IBV_QPS_ERR) flush(qp);
  });
  return 0;
}

// What a driver does for the connection manager: both pairs to RTS, or one to ERR.
void fake_join(unsigned one, unsigned other) {
  LOCKED({
    struct fake_qp *a = qp_by_number(one), *b = qp_by_number(other);
    if (!a || !b || a->base.state != IBV_QPS_INIT || b->base.state != IBV_QPS_INIT) abort();
    a->peer = other, b->peer = one;
    a->base.state = b->base.state = IBV_QPS_RTS;
    a->reads = b->reads = a->answers = b->answers = 1;
  });
}

void fake_part(unsigned one) {
  LOCKED({
    struct fake_qp *qp = qp_by_number(one);
    if (qp && qp->base.state == IBV_QPS_RTS) flush(qp);
  });
}

// ---- messages -------------------------------------------------------------------------------------------------------

static struct fake_mr *region_of(unsigned key, uint64_t addr, uint32_t length) {
  for (struct fake_mr *mr = regions; mr; mr = mr->next) {
    uint64_t start = (uintptr_t)mr->base.addr;
    if (mr->base.lkey == key && addr >= start && addr + length <= start + mr->base.length) return mr;
  }
  return NULL;
}

// Where this process sees what a request names; inline data has no region.
static char *seen_at(unsigned key, uint64_t addr, uint32_t length) {
  struct fake_mr *mr = region_of(key, addr, length);
  return mr && mr->mapped ? mr->mapped + (addr - (uintptr_t)mr->base.addr) : (char *)(uintptr_t)addr;
}

// The last byte comes last, as with a real device: the peer spins on it.
static void deliver(char *target, char *source, uint32_t length) {
  if (!length) return;
  memcpy(target, source, length - 1);
  __atomic_store_n(target + length - 1, source[length - 1], __ATOMIC_RELEASE);
}

// What a device puts before a datagram: the IPv6 layout from byte 0, or an IPv4 header (here without checksum) from byte 20.
static void put_grh(unsigned char *area, struct fake_qp *from, struct fake_ah *ah) {
  union ibv_gid gid;
  gid_at(from->base.context, ah->attr.grh.sgid_index % 4, &gid);
  memset(area, 0, 40);
  if (*SETTING("grh_v6") || *SETTING("infiniband")) {
    area[0] = 0x60;
    memcpy(area + 8, gid.raw, 16);
  } else {
    area[20] = 0x45;
    area[29] = 17;
    memcpy(area + 32, gid.raw + 12, 4);
  }
}

static enum ibv_wc_status into_receive(struct fake_qp *from, struct fake_qp *peer, struct ibv_sge *data, struct fake_ah *ah) {
  unsigned header = peer->base.qp_type == IBV_QPT_UD ? 40 : 0;
  if (header && data->length > 64 && *SETTING("lose_large")) return IBV_WC_SUCCESS;
  if (header && *SETTING("lose_datagrams")) return IBV_WC_SUCCESS;
  if (peer->head == peer->tail) return header ? IBV_WC_SUCCESS : IBV_WC_RNR_RETRY_EXC_ERR;  // a datagram is lost
  char *from_where = seen_at(data->lkey, data->addr, data->length);
  struct fake_recv *r = &peer->receives[peer->head++ % (peer->cap.max_recv_wr + 1)];
  struct ibv_wc wc = {.wr_id = r->id, .opcode = IBV_WC_RECV, .byte_len = data->length + header,
                      .qp_num = peer->base.qp_num, .src_qp = from->base.qp_num, .wc_flags = header && (!ah || ah->attr.is_global) ? IBV_WC_GRH : 0,
                      .slid = *SETTING("infiniband") ? lid_of(from->base.context) : 0};
  if (data->length + header > r->sge.length) wc.status = IBV_WC_LOC_LEN_ERR;
  else deliver(seen_at(r->sge.lkey, r->sge.addr, r->sge.length) + header, from_where, data->length);
  if (ah && !wc.status && ah->attr.is_global) put_grh((unsigned char *)(uintptr_t)r->sge.addr, from, ah);
  complete(peer->base.recv_cq, wc);
  return wc.status && !header ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_SUCCESS;
}

// Whether an InfiniBand fabric takes a packet there: the right LID, a partition that both are in and one fully, and across
// subnets a network layer that may cross a router.
static int arrives(struct fake_qp *from, struct fake_qp *to, struct ibv_ah_attr *path) {
  union ibv_gid own, peer;
  if (!*SETTING("infiniband")) return 1;
  unsigned a = pkey_at(from->pkey), b = pkey_at(to->pkey);
  if (!(a & 0x7fff) || (a & 0x7fff) != (b & 0x7fff) || !((a | b) & 0x8000)) return 0;
  gid_at(from->base.context, 0, &own);
  gid_at(to->base.context, 0, &peer);
  if (path->dlid != lid_of(to->base.context)) return 0;
  if (path->is_global && memcmp(&path->grh.dgid, &peer, sizeof peer)) return 0;
  return !memcmp(&own, &peer, 8) || (path->is_global && path->grh.hop_limit > 1);
}

static enum ibv_wc_status carry(struct fake_qp *qp, struct ibv_send_wr *wr) {
  int datagram = qp->base.qp_type == IBV_QPT_UD;
  struct ibv_sge *data = wr->sg_list;
  struct fake_qp *peer = qp_by_number(datagram ? wr->wr.ud.remote_qpn : qp->peer);
  if (qp->base.state == IBV_QPS_ERR) return IBV_WC_WR_FLUSH_ERR;
  if (*SETTING("completion") && *SETTING("written") >= *SETTING("completion_after"))
    return (enum ibv_wc_status)*SETTING("completion");
  if (!(wr->send_flags & IBV_SEND_INLINE) && !region_of(data->lkey, data->addr, data->length)) return IBV_WC_LOC_PROT_ERR;
  struct ibv_ah_attr *path = datagram ? &((struct fake_ah *)wr->wr.ud.ah)->attr : &qp->path;
  if (!peer || peer->base.state < IBV_QPS_RTR || peer->base.state == IBV_QPS_ERR || !arrives(qp, peer, path))
    return datagram ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR;
  if (datagram && peer->qkey != wr->wr.ud.remote_qkey) return IBV_WC_SUCCESS;
  if (wr->opcode == IBV_WR_SEND) return into_receive(qp, peer, data, datagram ? (struct fake_ah *)wr->wr.ud.ah : NULL);
  int read = wr->opcode == IBV_WR_RDMA_READ;
  if (read && !qp->reads) return IBV_WC_LOC_QP_OP_ERR;
  if (read && !peer->answers) return IBV_WC_REM_INV_REQ_ERR;
  if (read && !(region_of(data->lkey, data->addr, data->length)->access & IBV_ACCESS_LOCAL_WRITE)) return IBV_WC_LOC_PROT_ERR;
  struct fake_mr *target = region_of(wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, data->length);
  if (!target || !(target->access & peer->access & (read ? IBV_ACCESS_REMOTE_READ : IBV_ACCESS_REMOTE_WRITE)))
    return IBV_WC_REM_ACCESS_ERR;
  if (read) {
    deliver(seen_at(data->lkey, data->addr, data->length), seen_at(wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, data->length),
            data->length);
    ++*SETTING("read");
    return IBV_WC_SUCCESS;
  }
  deliver(seen_at(wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, data->length), seen_at(data->lkey, data->addr, data->length),
          data->length);
  ++*SETTING("written");
  return IBV_WC_SUCCESS;
}

int fake_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
  struct fake_qp *qp = (struct fake_qp *)base;
  *bad = wr;
  if (fails("post_send")) return errno;
  if (base->state != IBV_QPS_RTS && base->state != IBV_QPS_ERR) return EINVAL;
  if (wr->num_sge != 1 || wr->next) return EINVAL;
  if (wr->send_flags & IBV_SEND_INLINE && wr->opcode == IBV_WR_RDMA_READ) return EINVAL;
  if (wr->send_flags & IBV_SEND_INLINE && wr->sg_list->length > qp->cap.max_inline_data) return EINVAL;
  if (*SETTING("wire_us")) usleep(*SETTING("wire_us"));  // a message takes time to get there
  long mute_after = *SETTING("mute_after");
  if (*SETTING("mute") || (mute_after && *SETTING("written") >= mute_after)) return 0;  // the wire is cut
  LOCKED({
    if (*SETTING("stamps")) sent_at = machine_ns();
    enum ibv_wc_status status = carry(qp, wr);
    enum ibv_wc_opcode opcode = wr->opcode == IBV_WR_SEND ? IBV_WC_SEND
                                : wr->opcode == IBV_WR_RDMA_READ ? IBV_WC_RDMA_READ : IBV_WC_RDMA_WRITE;
    if (status || wr->send_flags & IBV_SEND_SIGNALED)
      complete(base->send_cq, (struct ibv_wc){.wr_id = wr->wr_id, .status = status, .opcode = opcode,
                                              .vendor_err = status ? (uint32_t)(*SETTING("vendor_error") ?: 0x77) : 0, .qp_num = base->qp_num});
    if (status) flush(qp);
  });
  return 0;
}

int fake_post_recv(struct ibv_qp *base, struct ibv_recv_wr *wr, struct ibv_recv_wr **bad) {
  struct fake_qp *qp = (struct fake_qp *)base;
  int code = 0;
  *bad = wr;
  if (fails("post_recv")) return errno;
  LOCKED({
    if (base->state < IBV_QPS_INIT) code = EINVAL;
    else if (qp->tail - qp->head >= qp->cap.max_recv_wr) code = ENOMEM;
    else qp->receives[qp->tail++ % (qp->cap.max_recv_wr + 1)] = (struct fake_recv){.id = wr->wr_id, .sge = *wr->sg_list};
  });
  return code;
}
