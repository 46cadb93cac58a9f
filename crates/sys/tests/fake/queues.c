// The fake libibverbs' queues: completion channels and queues, queue pairs, and how messages reach their peer.
#include "fake.h"

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
  if (*fake_setting("poll_cq")) return -(int)*fake_setting("poll_cq");
  LOCKED(while (n < room && cq->head != cq->tail) out[n++] = cq->ring[cq->head++ % cq->size]);
  return n;
}

static void complete(struct ibv_cq *base, struct ibv_wc wc) {
  struct fake_cq *cq = (struct fake_cq *)base;
  if (cq->tail - cq->head >= cq->size) abort();  // a real queue would overrun
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
    ++*fake_setting("pairs");
  });
  return &qp->base;
}

int ibv_destroy_qp(struct ibv_qp *base) {
  struct fake_qp *qp = (struct fake_qp *)base;
  LOCKED({
    for (struct fake_qp **p = &pairs; *p; p = &(*p)->next)
      if (*p == qp) { *p = qp->next; break; }
    --*fake_setting("pairs");
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
  int slow = (int)*fake_setting("modify_qp_rtr_ms");
  if (state == IBV_QPS_INIT && fails("modify_qp_init")) return errno;
  if (state == IBV_QPS_RTR && slow) usleep(1000 * slow);
  if (state == IBV_QPS_RTR && fails("modify_qp_rtr")) return errno;
  if (state == IBV_QPS_RTS && fails("modify_qp_rts")) return errno;
  if (mask != wanted(base->qp_type, state)) return EINVAL;
  if (state != IBV_QPS_ERR && state != base->state + 1) return EINVAL;
  LOCKED({
    base->state = state;
    if (mask & IBV_QP_DEST_QPN) qp->peer = attr->dest_qp_num;
    if (mask & IBV_QP_AV) *fake_setting("sgid_index") = attr->ah_attr.grh.sgid_index;
    if (mask & IBV_QP_PATH_MTU) *fake_setting("path_mtu") = attr->path_mtu;
    if (mask & IBV_QP_QKEY) qp->qkey = attr->qkey;
    if (state == IBV_QPS_ERR) flush(qp);
  });
  return 0;
}

// ---- messages -------------------------------------------------------------------------------------------------------

static struct fake_mr *region_of(unsigned key, uint64_t addr, uint32_t length) {
  for (struct fake_mr *mr = regions; mr; mr = mr->next) {
    uint64_t start = (uintptr_t)mr->base.addr;
    if (mr->base.lkey == key && addr >= start && addr + length <= start + mr->base.length) return mr;
  }
  return NULL;
}

// The last byte comes last, as with a real device: the peer spins on it.
static void deliver(uint64_t to, uint64_t from, uint32_t length) {
  char *target = (char *)(uintptr_t)to, *source = (char *)(uintptr_t)from;
  if (!length) return;
  memcpy(target, source, length - 1);
  __atomic_store_n(target + length - 1, source[length - 1], __ATOMIC_RELEASE);
}

static enum ibv_wc_status into_receive(struct fake_qp *from, struct fake_qp *peer, struct ibv_sge *data) {
  unsigned header = peer->base.qp_type == IBV_QPT_UD ? 40 : 0;
  if (peer->head == peer->tail) return header ? IBV_WC_SUCCESS : IBV_WC_RNR_RETRY_EXC_ERR;  // a datagram is lost
  struct fake_recv *r = &peer->receives[peer->head++ % (peer->cap.max_recv_wr + 1)];
  struct ibv_wc wc = {.wr_id = r->id, .opcode = IBV_WC_RECV, .byte_len = data->length + header,
                      .qp_num = peer->base.qp_num, .src_qp = from->base.qp_num, .wc_flags = header ? IBV_WC_GRH : 0};
  if (data->length + header > r->sge.length) wc.status = IBV_WC_LOC_LEN_ERR;
  else deliver(r->sge.addr + header, data->addr, data->length);
  complete(peer->base.recv_cq, wc);
  return wc.status && !header ? IBV_WC_REM_INV_REQ_ERR : IBV_WC_SUCCESS;
}

static enum ibv_wc_status carry(struct fake_qp *qp, struct ibv_send_wr *wr) {
  int datagram = qp->base.qp_type == IBV_QPT_UD;
  struct ibv_sge *data = wr->sg_list;
  struct fake_qp *peer = qp_by_number(datagram ? wr->wr.ud.remote_qpn : qp->peer);
  if (qp->base.state == IBV_QPS_ERR) return IBV_WC_WR_FLUSH_ERR;
  if (*fake_setting("completion")) return (enum ibv_wc_status)*fake_setting("completion");
  if (!(wr->send_flags & IBV_SEND_INLINE) && !region_of(data->lkey, data->addr, data->length)) return IBV_WC_LOC_PROT_ERR;
  if (!peer || peer->base.state < IBV_QPS_RTR || peer->base.state == IBV_QPS_ERR)
    return datagram ? IBV_WC_SUCCESS : IBV_WC_RETRY_EXC_ERR;
  if (datagram && peer->qkey != wr->wr.ud.remote_qkey) return IBV_WC_SUCCESS;
  if (wr->opcode == IBV_WR_SEND) return into_receive(qp, peer, data);
  struct fake_mr *target = region_of(wr->wr.rdma.rkey, wr->wr.rdma.remote_addr, data->length);
  if (!target || !(target->access & IBV_ACCESS_REMOTE_WRITE)) return IBV_WC_REM_ACCESS_ERR;
  deliver(wr->wr.rdma.remote_addr, data->addr, data->length);
  ++*fake_setting("written");
  return IBV_WC_SUCCESS;
}

int fake_post_send(struct ibv_qp *base, struct ibv_send_wr *wr, struct ibv_send_wr **bad) {
  struct fake_qp *qp = (struct fake_qp *)base;
  *bad = wr;
  if (fails("post_send")) return errno;
  if (base->state != IBV_QPS_RTS && base->state != IBV_QPS_ERR) return EINVAL;
  if (wr->num_sge != 1 || wr->next) return EINVAL;
  if (wr->send_flags & IBV_SEND_INLINE && wr->sg_list->length > qp->cap.max_inline_data) return EINVAL;
  if (*fake_setting("wire_us")) usleep(*fake_setting("wire_us"));  // a message takes time to get there
  long mute_after = *fake_setting("mute_after");
  if (*fake_setting("mute") || (mute_after && *fake_setting("written") >= mute_after)) return 0;  // the wire is cut
  LOCKED({
    enum ibv_wc_status status = carry(qp, wr);
    enum ibv_wc_opcode opcode = wr->opcode == IBV_WR_SEND ? IBV_WC_SEND : IBV_WC_RDMA_WRITE;
    if (status || wr->send_flags & IBV_SEND_SIGNALED)
      complete(base->send_cq, (struct ibv_wc){.wr_id = wr->wr_id, .status = status, .opcode = opcode,
                                              .vendor_err = status ? 0x77 : 0, .qp_num = base->qp_num});
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
