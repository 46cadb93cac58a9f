#!/bin/sh
# First program in the lab: loads the drivers of the shares and ports, then hands over to the host's own root.
mount -t proc proc /proc
mount -t sysfs sys /sys
mount -t devtmpfs dev /dev
# Usually udev's and systemd's work. Here, because busybox does it in a tenth of the time that the host's programs
# take, which come over the share.
ln -s /proc/self/fd /dev/fd
for link in stdin:0 stdout:1 stderr:2; do ln -s "/proc/self/fd/${link#*:}" "/dev/${link%:*}"; done
mkdir -p /dev/shm /dev/pts
mount -t tmpfs tmpfs /dev/shm
mount -t devpts devpts /dev/pts
mount -t debugfs debugfs /sys/kernel/debug
while read -r module; do insmod "/modules/$module"; done < /modules/order

# The three ports to the host get their names after the driver has loaded, so they are waited for.
for name in control stdout stderr; do
  until [ -e "/dev/lab-$name" ]; do
    for port in /sys/class/virtio-ports/vport*; do
      [ "$(cat "$port/name" 2>/dev/null)" = "$name" ] && ln -s "/dev/${port##*/}" "/dev/lab-$name"
    done
  done
done
echo started > /dev/lab-control

# The host's root is read-only; what programs expect to write to is in memory; /tmp/lab is shared with the host.
share="trans=virtio,version=9p2000.L,msize=512000"
mount -t 9p -o "$share,ro,cache=loose" root /newroot || echo "failed the host's root cannot be mounted" > /dev/lab-control
for folder in run tmp; do mount -t tmpfs tmpfs "/newroot/$folder"; done
printf '#!/bin/sh\nexec /sbin/modprobe -d /tmp/kernel "$@"\n' > /newroot/run/modprobe
chmod +x /newroot/run/modprobe
for folder in proc sys dev; do mount --move "/$folder" "/newroot/$folder"; done
mkdir /newroot/tmp/lab /newroot/tmp/kernel
mount -t 9p -o "$share" lab /newroot/tmp/lab || echo "failed the shared folder cannot be mounted" > /dev/lab-control
mount -t 9p -o "$share,ro,cache=loose" kernel /newroot/tmp/kernel
exec switch_root /newroot /bin/bash /tmp/lab/.boot/guest.sh
