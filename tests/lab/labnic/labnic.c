// SPDX-License-Identifier: GPL-2.0
/*
 * Gives the lab's software ports what a RoCE adapter tells of itself: data centre bridging, adapter statistics that rise at a given
 * rate, FEC, a module with a temperature, and the congestion counters of the RDMA port. Test only: it shows that settings and
 * counters are read and judged, not what priority flow control does to traffic.
 *
 * insmod labnic.ko devs=w1,w2; then below /sys/kernel/debug/labnic/w1/: one file for each statistic (its value; write to set it) and
 * NAME.rate (how much it rises each second), and `temperature` (m°C). dcb(8) sets PFC, ETS, DSCP map; the adapter starts with none.
 * /sys/kernel/debug/labnic/log: a line that is written here is logged by the kernel itself, which /dev/kmsg does for nobody.
 */
#include <linux/module.h>
#include <linux/netdevice.h>
#include <linux/rtnetlink.h>
#include <linux/ethtool.h>
#include <linux/debugfs.h>
#include <linux/kernfs.h>
#include <linux/math64.h>
#include <linux/slab.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <net/dcbnl.h>
#include <rdma/ib_verbs.h>
#include <rdma/ib_sysfs.h>

#define PORTS_MAX 16

static char *devs[PORTS_MAX];
static int ndevs;
module_param_array(devs, charp, &ndevs, 0444);
MODULE_PARM_DESC(devs, "network devices to dress up");

#define PRIO(n)                                                                                     \
	"rx_prio" #n "_pause", "rx_prio" #n "_pause_duration", "rx_prio" #n "_pause_transition",     \
	"tx_prio" #n "_pause", "tx_prio" #n "_pause_duration", "rx_prio" #n "_discards"

static const char names[][ETH_GSTRING_LEN] = {
	PRIO(0), PRIO(1), PRIO(2), PRIO(3), PRIO(4), PRIO(5), PRIO(6), PRIO(7),
	"rx_discards_phy", "tx_discards_phy", "rx_out_of_buffer", "link_down_events_phy",
	"rx_symbol_err_phy", "rx_pcs_symbol_err_phy", "rx_crc_errors_phy", "rx_oversize_pkts_phy",
	"rx_corrected_bits_phy", "rx_bits_phy", "tx_pause_storm_warning_events",
	"tx_pause_storm_error_events", "module_high_temp", "module_bad_shorted", "module_bus_stuck",
	"tx_vport_rdma_unicast_packets", "rx_vport_rdma_unicast_packets",
};
#define NSTAT ARRAY_SIZE(names)

/* Files of the RDMA port's hw_counters, with mlx5's names. */
static const char *const rdma_names[] = {
	"np_cnp_sent", "np_ecn_marked_roce_packets", "rp_cnp_handled", "rp_cnp_ignored", "rx_icrc_encapsulated",
};
#define NRDMA ARRAY_SIZE(rdma_names)

/* A counter that rises by `rate` each second since it was set. */
struct counter {
	u64 base, rate;
	u64 since;
};

struct nic {
	struct net_device *dev;
	const struct ethtool_ops *old;
	struct ethtool_ops ops;
	struct ieee_pfc pfc;
	struct ieee_ets ets;
	struct dcbnl_buffer buffer;
	struct counter stat[NSTAT], rdma[NRDMA];
	u32 temperature;
	struct dentry *dir;
	struct kobject *port;
	struct {
		struct ib_port_attribute attr;
		struct counter *counter;
	} file[NRDMA];
};

static struct nic nics[PORTS_MAX];
static struct dentry *root;

static u64 value(const struct counter *c)
{
	return c->base + div_u64((ktime_get_ns() - c->since) / 1000000 * c->rate, 1000);
}

static struct nic *find(const struct net_device *dev)
{
	int i;

	for (i = 0; i < ndevs; i++)
		if (nics[i].dev == dev)
			return &nics[i];
	return NULL;
}

/* Data centre bridging */

static int getpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	*pfc = find(dev)->pfc;
	pfc->pfc_cap = 8;
	return 0;
}

static int setpfc(struct net_device *dev, struct ieee_pfc *pfc)
{
	find(dev)->pfc = *pfc;
	return 0;
}

static int getets(struct net_device *dev, struct ieee_ets *ets)
{
	*ets = find(dev)->ets;
	ets->ets_cap = 8;
	return 0;
}

static int setets(struct net_device *dev, struct ieee_ets *ets)
{
	find(dev)->ets = *ets;
	return 0;
}

static u8 getdcbx(struct net_device *dev)
{
	return DCB_CAP_DCBX_HOST | DCB_CAP_DCBX_VER_IEEE;
}

static u8 setdcbx(struct net_device *dev, u8 mode)
{
	return 0;
}

static int getbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	*buffer = find(dev)->buffer;
	return 0;
}

static int setbuffer(struct net_device *dev, struct dcbnl_buffer *buffer)
{
	find(dev)->buffer = *buffer;
	return 0;
}

static const struct dcbnl_rtnl_ops dcb_ops = {
	.ieee_getpfc = getpfc, .ieee_setpfc = setpfc,
	.ieee_getets = getets, .ieee_setets = setets,
	.ieee_setapp = dcb_ieee_setapp, .ieee_delapp = dcb_ieee_delapp,
	.getdcbx = getdcbx, .setdcbx = setdcbx,
	.dcbnl_getbuffer = getbuffer, .dcbnl_setbuffer = setbuffer,
};

/* ethtool: the statistics of the device below come first, ours behind them. */

static int sset_count(struct net_device *dev, int set)
{
	const struct ethtool_ops *old = find(dev)->old;
	int count = old->get_sset_count ? old->get_sset_count(dev, set) : -EOPNOTSUPP;

	return set == ETH_SS_STATS ? max(count, 0) + (int)NSTAT : count;
}

static int below(struct net_device *dev)
{
	return sset_count(dev, ETH_SS_STATS) - (int)NSTAT;
}

static void strings(struct net_device *dev, u32 set, u8 *to)
{
	const struct ethtool_ops *old = find(dev)->old;

	if (old->get_strings)
		old->get_strings(dev, set, to);
	if (set == ETH_SS_STATS)
		memcpy(to + below(dev) * ETH_GSTRING_LEN, names, sizeof(names));
}

static void stats(struct net_device *dev, struct ethtool_stats *s, u64 *to)
{
	struct nic *nic = find(dev);
	size_t i;

	if (nic->old->get_ethtool_stats)
		nic->old->get_ethtool_stats(dev, s, to);
	for (i = 0; i < NSTAT; i++)
		to[below(dev) + i] = value(&nic->stat[i]);
}

static int fec(struct net_device *dev, struct ethtool_fecparam *param)
{
	param->fec = ETHTOOL_FEC_RS;
	param->active_fec = ETHTOOL_FEC_RS;
	return 0;
}

/* A QSFP28 copper cable (SFF-8636; copper has no optical power): identifier, temperature, its alarm threshold, vendor and part number. */
static int eeprom(struct net_device *dev, const struct ethtool_module_eeprom *page, struct netlink_ext_ack *ack)
{
	static const char vendor[] = "Example Cables  ", part[] = "LAB-100G-1M     ";
	u32 temperature = find(dev)->temperature * 256 / 1000, alarm = 75 * 256;
	u8 lower[128] = { 0x11, [22] = temperature >> 8, [23] = temperature };
	u8 upper[256] = { 0x11, [147] = 0xa0 };
	u8 thresholds[256] = { [128] = alarm >> 8, [129] = alarm };
	u32 i;

	memcpy(upper + 148, vendor, 16);
	memcpy(upper + 168, part, 16);
	for (i = 0; i < page->length; i++) {
		u32 at = page->offset + i;

		if (at < 128)
			page->data[i] = lower[at];
		else if (at < 256)
			page->data[i] = page->page == 3 ? thresholds[at] : upper[at];
		else
			page->data[i] = 0;
	}
	return page->length;
}

/* Counters of the RDMA port */

static ssize_t rdma_show(struct ib_device *ib, u32 port, struct ib_port_attribute *attr, char *to)
{
	struct counter *counter = *(struct counter **)(attr + 1);

	return sysfs_emit(to, "%llu\n", value(counter));
}

static struct kobject *port_of(struct ib_device *ib)
{
	struct kernfs_node *ports = kernfs_find_and_get(ib->dev.kobj.sd, "ports");
	struct kernfs_node *one = ports ? kernfs_find_and_get(ports, "1") : NULL;
	struct kobject *port = one ? kobject_get(one->priv) : NULL;

	kernfs_put(one);
	kernfs_put(ports);
	return port;
}

static void add_rdma(struct nic *nic)
{
	struct ib_device *ib = ib_device_get_by_netdev(nic->dev, RDMA_DRIVER_RXE);
	size_t i;

	nic->port = ib ? port_of(ib) : NULL;
	for (i = 0; nic->port && i < NRDMA; i++) {
		struct ib_port_attribute *attr = &nic->file[i].attr;

		sysfs_attr_init(&attr->attr);
		attr->attr.name = rdma_names[i];
		attr->attr.mode = 0444;
		attr->show = rdma_show;
		nic->file[i].counter = &nic->rdma[i];
		if (sysfs_add_file_to_group(nic->port, &attr->attr, "hw_counters"))
			pr_warn("labnic: no %s\n", rdma_names[i]);
	}
	/* A reference would hold back `rdma link del`. */
	if (ib)
		ib_device_put(ib);
}

static void remove_rdma(struct nic *nic)
{
	size_t i;

	/* Without a folder the device is gone, and its files with it. */
	for (i = 0; nic->port && nic->port->sd && i < NRDMA; i++)
		sysfs_remove_file_from_group(nic->port, &nic->file[i].attr.attr, "hw_counters");
	kobject_put(nic->port);
}

/* debugfs */

static int counter_get(void *data, u64 *to)
{
	*to = value(data);
	return 0;
}

static int counter_set(void *data, u64 to)
{
	struct counter *c = data;

	c->base = to;
	c->since = ktime_get_ns();
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(counter_file, counter_get, counter_set, "%llu\n");

static int rate_get(void *data, u64 *to)
{
	*to = ((struct counter *)data)->rate;
	return 0;
}

static int rate_set(void *data, u64 to)
{
	struct counter *c = data;

	c->base = value(c);
	c->since = ktime_get_ns();
	c->rate = to;
	return 0;
}
DEFINE_DEBUGFS_ATTRIBUTE(rate_file, rate_get, rate_set, "%llu\n");

static ssize_t log_write(struct file *file, const char __user *from, size_t length, loff_t *at)
{
	char *line = length < 1000 ? memdup_user_nul(from, length) : ERR_PTR(-EMSGSIZE);

	if (IS_ERR(line))
		return PTR_ERR(line);
	printk(KERN_ERR "%s\n", strim(line));
	kfree(line);
	return length;
}

static const struct file_operations log_file = {
	.owner = THIS_MODULE,
	.write = log_write,
};

static void counter_files(struct dentry *dir, const char *name, struct counter *counter)
{
	char rate[ETH_GSTRING_LEN + 8];

	snprintf(rate, sizeof(rate), "%s.rate", name);
	debugfs_create_file_unsafe(name, 0644, dir, counter, &counter_file);
	debugfs_create_file_unsafe(rate, 0644, dir, counter, &rate_file);
}

static void add_files(struct nic *nic, const char *name)
{
	size_t i;

	nic->dir = debugfs_create_dir(name, root);
	for (i = 0; i < NSTAT; i++)
		counter_files(nic->dir, names[i], &nic->stat[i]);
	for (i = 0; i < NRDMA; i++)
		counter_files(nic->dir, rdma_names[i], &nic->rdma[i]);
	debugfs_create_u32("temperature", 0644, nic->dir, &nic->temperature);
}

static void dress(struct nic *nic, const char *name)
{
	int i;

	nic->dev = dev_get_by_name(&init_net, name);
	if (!nic->dev) {
		pr_warn("labnic: no network device %s\n", name);
		return;
	}
	nic->temperature = 42000;
	for (i = 0; i < 8; i++) {
		nic->ets.prio_tc[i] = i;
		nic->buffer.prio2buffer[i] = i == 3;
	}
	nic->buffer.buffer_size[0] = 19872;
	nic->buffer.buffer_size[1] = 220896;
	nic->buffer.total_size = 4151520;
	nic->old = nic->dev->ethtool_ops;
	nic->ops = *nic->old;
	nic->ops.get_sset_count = sset_count;
	nic->ops.get_strings = strings;
	nic->ops.get_ethtool_stats = stats;
	nic->ops.get_fecparam = fec;
	nic->ops.get_module_eeprom_by_page = eeprom;
	rtnl_lock();
	nic->dev->ethtool_ops = &nic->ops;
	nic->dev->dcbnl_ops = &dcb_ops;
	rtnl_unlock();
	add_files(nic, name);
	add_rdma(nic);
}

static int __init start(void)
{
	int i;

	root = debugfs_create_dir("labnic", NULL);
	debugfs_create_file("log", 0200, root, NULL, &log_file);
	for (i = 0; i < ndevs; i++)
		dress(&nics[i], devs[i]);
	return 0;
}

static void __exit stop(void)
{
	int i;

	debugfs_remove_recursive(root);
	for (i = 0; i < ndevs; i++) {
		struct nic *nic = &nics[i];

		if (!nic->dev)
			continue;
		remove_rdma(nic);
		rtnl_lock();
		nic->dev->ethtool_ops = nic->old;
		nic->dev->dcbnl_ops = NULL;
		rtnl_unlock();
		dev_put(nic->dev);
	}
}

module_init(start);
module_exit(stop);
MODULE_LICENSE("GPL");
MODULE_DESCRIPTION("Dresses software ports up as a RoCE adapter, for tests");
