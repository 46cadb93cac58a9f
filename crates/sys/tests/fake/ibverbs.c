// A libibverbs without a kernel, for tests: devices fake_0, fake_1, ... whose queue pairs reach each other inside one
// process, whose failures a test steers (fake_set, or FAKE_IBVERBS="name=value,..." in the environment) and which counts
// what is alive. An object with children refuses to be released: EBUSY, counted as "refused".
#include "fake.h"
#include <sys/mman.h>

struct fake_device *devices;
struct fake_mr *regions;
struct fake_qp *pairs;
pthread_mutex_t big_lock = PTHREAD_MUTEX_INITIALIZER;

// ---- steering -------------------------------------------------------------------------------------------------------

static struct { char name[40]; long value; } settings[128];

// Callable with and without the big lock, so it has its own.
long *fake_setting(const char *name) {
  static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;
  long *found = NULL;
  pthread_mutex_lock(&lock);
  for (size_t i = 0; !found && i < sizeof settings / sizeof settings[0]; i++) {
    if (!settings[i].name[0]) snprintf(settings[i].name, sizeof settings[i].name, "%s", name);
    if (!strcmp(settings[i].name, name)) found = &settings[i].value;
  }
  pthread_mutex_unlock(&lock);
  if (!found) abort();
  return found;
}

void fake_set(const char *name, long value) { LOCKED(*fake_setting(name) = value); }

long fake_get(const char *name) {
  long value;
  LOCKED(value = *fake_setting(name));
  return value;
}

__attribute__((constructor)) static void read_environment(void) {
  char *text = getenv("FAKE_IBVERBS"), *saved = NULL;
  *SETTING("devices") = 1;
  *SETTING("pkey_0") = 0xffff;
  if (!text || !(text = strdup(text))) return;
  for (char *pair = strtok_r(text, ",", &saved); pair; pair = strtok_r(NULL, ",", &saved)) {
    char *equals = strchr(pair, '=');
    if (!equals) continue;
    *equals = 0;
    *fake_setting(pair) = atol(equals + 1);
  }
  free(text);
}

// True when the test wants this call to fail; errno is then set.
int fails_with(int code) {
  if (code) errno = code;
  return code;
}

void born(int *parent) {
  ++*parent;
  ++*SETTING("live");
}

// Releases under the lock: 0, or EBUSY for an object that still has children.
int dies(int children, int *parent) {
  if (children) {
    ++*SETTING("refused");
    return EBUSY;
  }
  if (parent) --*parent;
  --*SETTING("live");
  return 0;
}

// ---- devices --------------------------------------------------------------------------------------------------------

struct ibv_device **ibv_get_device_list(int *num) {
  if (fails("get_device_list")) return NULL;
  int n = (int)fake_get("devices");
  struct ibv_device **list = calloc(n + 1, sizeof *list);
  for (int i = 0; i < n; i++) {
    struct fake_device *d = calloc(1, sizeof *d);
    d->index = i;
    snprintf(d->base.name, sizeof d->base.name, "fake_%d", i);
    snprintf(d->base.dev_name, sizeof d->base.dev_name, "uverbs%d", i);
    LOCKED({ d->next = devices; devices = d; });  // kept: a context may outlive the list
    list[i] = &d->base;
  }
  *num = n;
  LOCKED(++*SETTING("live"));
  return list;
}

void ibv_free_device_list(struct ibv_device **list) {
  LOCKED(dies(0, NULL));
  free(list);
}

const char *ibv_get_device_name(struct ibv_device *d) { return d->name; }

__be64 ibv_get_device_guid(struct ibv_device *d) {
  return htobe64(0x0200000000000001ULL + ((struct fake_device *)d)->index);
}

static int query_port_ex(struct ibv_context *c, uint8_t port, struct ibv_port_attr *a, size_t size) {
  if (fails("query_port")) return errno;
  if (port != 1) return EINVAL;
  struct ibv_port_attr p = {
      .state = (enum ibv_port_state)(fake_get("port_down") ? IBV_PORT_DOWN : IBV_PORT_ACTIVE),
      .phys_state = fake_get("port_down") ? 3 : 5, .max_mtu = IBV_MTU_4096, .active_mtu = IBV_MTU_4096, .gid_tbl_len = 16,
      .pkey_tbl_len = 1, .max_msg_sz = 1u << 30, .active_width = 2, .active_speed = 64, .link_layer = IBV_LINK_LAYER_ETHERNET};
  if (fake_get("infiniband")) {
    p.link_layer = IBV_LINK_LAYER_INFINIBAND, p.gid_tbl_len = 1, p.pkey_tbl_len = PKEYS;
    p.lid = lid_of(c), p.sm_lid = 1, p.lmc = 1;
  }
  memcpy(a, &p, size < sizeof p ? size : sizeof p);
  return 0;
}

#undef ibv_query_port
int ibv_query_port(struct ibv_context *c, uint8_t port, struct _compat_ibv_port_attr *a) {
  LOCKED(++*SETTING("compat_query_port"));
  return query_port_ex(c, port, (struct ibv_port_attr *)a, offsetof(struct ibv_port_attr, port_cap_flags2));
}

static int query_device_ex(struct ibv_context *c, const struct ibv_query_device_ex_input *in, struct ibv_device_attr_ex *a, size_t size) {
  if (fails("query_device_ex")) return errno;
  memset(a, 0, size);
  a->completion_timestamp_mask = (uint64_t)fake_get("stamp_mask");
  a->hca_core_clock = (uint64_t)fake_get("stamp_khz");
  return 0;
}

struct ibv_context *ibv_open_device(struct ibv_device *device) {
  if (fails("open_device")) return NULL;
  struct fake_context *c = calloc(1, sizeof *c);
  c->v.sz = sizeof c->v;
  c->v.query_port = query_port_ex;
  c->v.create_cq_ex = fake_create_cq_ex;
  c->v.query_device_ex = query_device_ex;
  struct ibv_context *base = &c->v.context;
  base->device = device;
  base->abi_compat = fake_get("old_abi") ? NULL : (void *)UINTPTR_MAX;
  base->ops.poll_cq = fake_poll_cq;
  base->ops.req_notify_cq = fake_req_notify_cq;
  base->ops.post_send = fake_post_send;
  base->ops.post_recv = fake_post_recv;
  if (pipe(c->events)) return NULL;
  base->async_fd = c->events[0];
  LOCKED({ ++*SETTING("live"); ++*SETTING("contexts"); c->device = (struct fake_device *)device; c->device->open = c; });
  return base;
}

int ibv_close_device(struct ibv_context *base) {
  struct fake_context *c = context_of(base);
  int code;
  LOCKED({
    code = dies(c->children, NULL);
    if (!code) { --*SETTING("contexts"); c->device->open = NULL; }
  });
  if (code) return errno = code, -1;
  close(c->events[0]);
  close(c->events[1]);
  free(c);
  return 0;
}

int ibv_query_device(struct ibv_context *c, struct ibv_device_attr *a) {
  if (fails("query_device")) return errno;
  memset(a, 0, sizeof *a);
  strcpy(a->fw_ver, "1.2.3");
  a->node_guid = ibv_get_device_guid(c->device);
  a->phys_port_cnt = 1;
  a->max_qp = 1000;
  a->max_qp_wr = a->max_cqe = 4096;
  a->max_mr_size = 1ULL << 40;
  a->max_qp_rd_atom = 16;
  a->max_qp_init_rd_atom = (int)fake_get("max_reads") ?: 128;
  return 0;
}

// Ethernet: index 0 and 1: link-local, RoCE v1 and v2; 2 and 3: ::ffff:10.8.0.(device+1), RoCE v1 and v2. InfiniBand: one, in the
// subnet fe80:: or, with the switch "subnets", in one of its own.
void gid_at(struct ibv_context *c, unsigned index, union ibv_gid *gid) {
  int n = index_of(c) + 1;
  memset(gid, 0, sizeof *gid);
  if (*SETTING("infiniband")) {
    gid->raw[0] = 0xfe, gid->raw[1] = *SETTING("subnets") ? 0xc0 : 0x80, gid->raw[8] = 2, gid->raw[15] = n;
    if (*SETTING("subnets")) gid->raw[7] = n;
  } else if (index < 2) {
    gid->raw[0] = 0xfe, gid->raw[1] = 0x80, gid->raw[15] = n;
  } else if (index < 4) {
    gid->raw[10] = gid->raw[11] = 0xff, gid->raw[12] = 10, gid->raw[13] = 8, gid->raw[15] = n;
  }
}

int ibv_query_gid(struct ibv_context *c, uint8_t port, int index, union ibv_gid *gid) {
  if (fails("query_gid") || port != 1 || index >= 16) return -1;
  gid_at(c, index, gid);
  return 0;
}

#ifndef FAKE_WITHOUT_GID_TABLE
ssize_t _ibv_query_gid_table(struct ibv_context *c, struct ibv_gid_entry *entries, size_t max, uint32_t flags, size_t size) {
  if (fails("query_gid_table")) return -errno;
  if (flags || size != sizeof *entries) return -EINVAL;
  size_t used = fake_get("no_gids") ? 0 : fake_get("infiniband") ? 1 : 4, i;
  unsigned shift = fake_get("gid_shift");  // addresses came and went: the same ones at other indices
  for (i = 0; i < used && i < max; i++) {
    if (i && i == (size_t)fake_get("gids")) break;  // the table has only the first ones
    gid_at(c, i, &entries[i].gid);
    entries[i].gid_index = i + shift;
    entries[i].port_num = 1;
    entries[i].gid_type = fake_get("infiniband") ? IBV_GID_TYPE_IB : i % 2 ? IBV_GID_TYPE_ROCE_V2 : IBV_GID_TYPE_ROCE_V1;
    entries[i].ndev_ifindex = ((struct fake_device *)c->device)->index + 2;
  }
  return i;
}
#endif

int ibv_query_pkey(struct ibv_context *c, uint8_t port, int index, __be16 *pkey) {
  if (fails("query_pkey") || port != 1 || index >= (fake_get("infiniband") ? PKEYS : 1)) return -1;
  *pkey = htobe16(pkey_at(index));
  return 0;
}

// ---- events ---------------------------------------------------------------------------------------------------------

// Raises an event on every open context: of a port, or where `pair` is not 0 of that queue pair.
void fake_raise(int kind, int port, unsigned pair) {
  struct ibv_async_event event = {.event_type = (enum ibv_event_type)kind};
  LOCKED({
    if (pair) event.element.qp = &qp_by_number(pair)->base;
    else event.element.port_num = port;
    for (struct fake_device *d = devices; d; d = d->next)
      if (d->open && write(d->open->events[1], &event, sizeof event) != sizeof event) abort();
  });
}

int ibv_get_async_event(struct ibv_context *c, struct ibv_async_event *event) {
  if (fails("get_async_event")) return -1;
  if (read(c->async_fd, event, sizeof *event) != sizeof *event) return -1;
  LOCKED(++*SETTING("unacknowledged"));
  return 0;
}

void ibv_ack_async_event(struct ibv_async_event *event) { LOCKED(--*SETTING("unacknowledged")); }

// ---- domains, regions, addresses ------------------------------------------------------------------------------------

struct ibv_pd *ibv_alloc_pd(struct ibv_context *c) {
  if (fails("alloc_pd")) return NULL;
  struct fake_pd *pd = calloc(1, sizeof *pd);
  pd->base.context = c;
  LOCKED(born(&context_of(c)->children));
  return &pd->base;
}

int ibv_dealloc_pd(struct ibv_pd *base) {
  struct fake_pd *pd = (struct fake_pd *)base;
  int code;
  LOCKED(code = dies(pd->children, &context_of(base->context)->children));
  if (!code) free(pd);
  return code;
}

static struct ibv_mr *region(struct ibv_pd *pd, void *addr, size_t length, int access, char *mapped) {
  struct fake_mr *mr = calloc(1, sizeof *mr);
  static unsigned keys = 0x1000;
  mr->base = (struct ibv_mr){.context = pd->context, .pd = pd, .addr = addr, .length = length};
  mr->access = access;
  mr->mapped = mapped;
  // What the last one was like: for tests of what peers may reach.
  int zeroed = 1;
  for (size_t at = 0; !mapped && at < length; at++) zeroed &= !((char *)addr)[at];
  LOCKED({
    ++*SETTING("regions_made");
    ++*SETTING("regions_live");
    *SETTING("region_bytes") = (long)length;
    *SETTING("region_access") = access;
    *SETTING("region_zeroed") = zeroed;
    mr->base.lkey = mr->base.rkey = ++keys;
    mr->next = regions;
    regions = mr;
    born(&((struct fake_pd *)pd)->children);
  });
  return &mr->base;
}

#undef ibv_reg_mr
struct ibv_mr *ibv_reg_mr(struct ibv_pd *pd, void *addr, size_t length, int access) {
  return fails("reg_mr") ? NULL : region(pd, addr, length, access, NULL);
}

#ifndef FAKE_WITHOUT_DMABUF
// Any file that can be mapped stands for a dma-buf.
struct ibv_mr *ibv_reg_dmabuf_mr(struct ibv_pd *pd, uint64_t offset, size_t length, uint64_t iova, int fd, int access) {
  if (fails("reg_dmabuf_mr")) return NULL;
  char *mapped = mmap(NULL, length, PROT_READ | PROT_WRITE, MAP_SHARED, fd, offset);
  return mapped == MAP_FAILED ? NULL : region(pd, (void *)(uintptr_t)iova, length, access, mapped);
}
#endif

struct ibv_mr *ibv_reg_mr_iova2(struct ibv_pd *pd, void *addr, size_t length, uint64_t iova, unsigned int access) {
  LOCKED(++*SETTING("relaxed"));
  return ibv_reg_mr(pd, addr, length, (int)access);
}

int ibv_dereg_mr(struct ibv_mr *base) {
  if (fails("dereg_mr")) return errno;
  struct fake_mr *mr = (struct fake_mr *)base;
  LOCKED({
    for (struct fake_mr **p = &regions; *p; p = &(*p)->next)
      if (*p == mr) { *p = mr->next; break; }
    --*SETTING("regions_live");
    dies(0, &((struct fake_pd *)base->pd)->children);
  });
  if (mr->mapped) munmap(mr->mapped, base->length);
  free(mr);
  return 0;
}

static void note(struct ibv_context *c, const char *what, long value) {
  char name[40];
  snprintf(name, sizeof name, "%s_%d", what, index_of(c));
  *fake_setting(name) = value;
}

// Remembers an address for the test: "dlid_0" is what device 0 sends to.
void record(struct ibv_context *c, struct ibv_ah_attr *a) {
  note(c, "dlid", a->dlid);
  note(c, "sl", a->sl);
  note(c, "path_bits", a->src_path_bits);
  note(c, "is_global", a->is_global);
  note(c, "hop_limit", a->grh.hop_limit);
  note(c, "traffic_class", a->grh.traffic_class);
  note(c, "flow_label", a->grh.flow_label);
}

void record_pkey(struct ibv_context *c, int index) { note(c, "pkey_index", index); }

// What the kernel refuses: RoCE without a network layer, InfiniBand without a LID (rdma_check_ah_attr, ib_resolve_eth_dmac).
int refuses(struct ibv_context *c, struct ibv_ah_attr *a) {
  if (a->port_num != 1) return EINVAL;
  if (!fake_get("infiniband")) return a->is_global ? 0 : EINVAL;
  return a->dlid && a->sl < 16 ? 0 : EINVAL;
}

#ifndef FAKE_WITHOUT_CREATE_AH
struct ibv_ah *ibv_create_ah(struct ibv_pd *pd, struct ibv_ah_attr *attr) {
  if (fails("create_ah")) return NULL;
  if (refuses(pd->context, attr)) return errno = EINVAL, NULL;
  struct fake_ah *ah = calloc(1, sizeof *ah);
  ah->base.context = pd->context;
  ah->base.pd = pd;
  ah->attr = *attr;
  LOCKED({
    born(&((struct fake_pd *)pd)->children);
    record(pd->context, attr);
    ++*SETTING("addresses");
    *SETTING("ah_is_global") = attr->is_global;
    *SETTING("ah_dlid") = attr->dlid;
    *SETTING("ah_sgid_index") = attr->grh.sgid_index;
    *SETTING("ah_traffic_class") = attr->grh.traffic_class;
    *SETTING("ah_flow_label") = attr->grh.flow_label;
  });
  return &ah->base;
}
#endif

int ibv_destroy_ah(struct ibv_ah *ah) {
  LOCKED(dies(0, &((struct fake_pd *)ah->pd)->children));
  free((struct fake_ah *)ah);
  return 0;
}
