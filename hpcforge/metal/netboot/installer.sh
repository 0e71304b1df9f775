#!/bin/sh
# The installer, in the image's own initrd before it would mount a root file system (see installer.py).
# It asks the server which disk to write, and writes no other. Every failure ends here with its reason on the console
# and at the server, and the machine stays on for a look at it.
PATH=/hpcforge/bin:/usr/sbin:/usr/bin:/sbin:/bin
export PATH
# By these names alone the shell would start those of busybox.
own=/hpcforge/bin
for word in $(cat /proc/cmdline); do
  case $word in
    hpcforge.url=*) url=${word#*=} ;;
    hpcforge.token=*) token=${word#*=} ;;
    BOOTIF=*) bootif=${word#*=01-} ;;
  esac
done
[ -n "$token" ] || exit 0

say() { echo "hpcforge: $*" > /dev/console; echo "$*" >> /tmp/log; }
post() { wget -q -O - --header "X-Token: $token" --post-file "$2" "$url/$1"; }
die() {
  say "not installed: $*"
  { echo "$*"; cat /tmp/log; dmesg | tail -n 12; } > /tmp/why
  [ -n "$begun" ] && post broken /tmp/why > /dev/null
  while :; do sleep 3600; done
}

say "installer, $(cut -d. -f1 /proc/uptime) s after the kernel"
mac=$(echo "$bootif" | tr - :)
for module in af_packet virtio_net virtio_pci virtio_blk nvme sd_mod ahci raid1 virtio_scsi e1000 e1000e igb ixgbe i40e ice \
  bnxt_en mlx5_core ext4 efivarfs; do modprobe -q $module; done
udevadm settle --timeout=20 2> /dev/null
tries=0
until [ -n "$interface" ]; do
  for path in /sys/class/net/*; do [ "$(cat $path/address)" = "$mac" ] && interface=${path##*/}; done
  tries=$((tries + 1)); [ $tries -gt 30 ] && die "no interface has the address $mac"
  [ -n "$interface" ] || sleep 1
done
ip link set lo up; ip link set "$interface" up
udhcpc -q -n -t 20 -T 2 -i "$interface" -s /hpcforge/udhcpc > /dev/null 2>&1 || die "no DHCP answer on $interface"
say "network is up, $(cut -d. -f1 /proc/uptime) s"

# Arrays that udev has put together hold their disks. An array that nobody wrote to is stopped without a write.
[ -x /sbin/mdadm ] && mdadm --stop --scan 2> /dev/null

# What disks there are: blank is one whose first and last MiB can be read and are zero.
list() {
  printf '['
  first=yes
  for path in /sys/block/*; do
    name=${path##*/}
    case $name in loop*|ram*|sr*|fd*|zram*|dm-*|md*) continue ;; esac
    [ "$(cat $path/ro)" = 0 ] && [ "$(cat $path/removable)" = 0 ] || continue
    bytes=$(($(cat $path/size) * 512))
    [ $bytes -gt 2097152 ] || continue
    serial=$(cat $path/serial $path/device/serial 2> /dev/null | head -n 1 | tr -cd 'A-Za-z0-9._-')
    # SCSI, SAS and SATA: page 80 of its vital product data, behind four bytes of header
    [ -n "$serial" ] || serial=$(tail -c +5 $path/device/vpd_pg80 2> /dev/null | tr -cd 'A-Za-z0-9._-')
    wwn=$(cat $path/wwid $path/device/wwid 2> /dev/null | head -n 1 | tr -cd 'A-Za-z0-9._-')
    blank=false
    if dd if=/dev/$name of=/tmp/first bs=512 count=2048 2> /dev/null &&
      dd if=/dev/$name of=/tmp/last bs=512 count=2048 skip=$((bytes / 512 - 2048)) 2> /dev/null &&
      [ "$(cat /tmp/first /tmp/last | wc -c)" -eq 2097152 ] &&
      [ "$(cat /tmp/first /tmp/last | tr -d '\000' | wc -c)" -eq 0 ]; then blank=true; fi
    marker=$(dd if=/dev/$name bs=512 skip=40 count=1 2> /dev/null | tr -cd 'a-z0-9:-')
    case $marker in hpcforge-installed:*) marker=${marker#*:} ;; *) marker= ;; esac
    [ $first = yes ] || printf ','
    first=no
    printf '{"name":"%s","serial":"%s","wwn":"%s","bytes":%s,"blank":%s,"marker":"%s"}' \
      "$name" "$serial" "$wwn" "$bytes" $blank "$marker"
  done
  printf ']'
}
list > /tmp/disks
begun=yes
post begin /tmp/disks > /tmp/plan || { begun=; die "the server refuses: $(cat /tmp/plan) (disks: $(cat /tmp/disks))"; }
. /tmp/plan
say "writes $disks"
set -- $disks
drives=$#

# On each disk a partition of 1 MiB for GRUB on BIOS, one of 64 MiB for EFI, those of the blueprint, and / from 66 MiB
# to where they begin. Nothing else of a disk is touched.
smallest=
for disk; do
  here=$(cat /sys/block/$disk/queue/logical_block_size)
  [ "$here" = 512 ] || die "/dev/$disk has sectors of $here bytes: only 512 are supported"
  here=$(cat /sys/block/$disk/size)
  [ -n "$smallest" ] && [ "$smallest" -le "$here" ] || smallest=$here
done
linux=0FC63DAF-8483-4772-8E79-3D69D8477DE4
root=4F68BCE3-E8CD-4DB1-96E7-FBCAF984B709
[ $drives = 1 ] || { linux=A19D880F-05FC-4D3B-A006-743F0F84911E; root=$linux; }
next=$(((smallest - 34) / 2048 * 2048)) # the second table has the last 33 sectors
more= number=3
for partition in $partitions; do
  sectors=$((${partition#*=} * 2097152))
  next=$((next - sectors)) number=$((number + 1))
  more="${more}start=$next,size=$sectors,type=$linux\n"
done
[ $next -gt 135168 ] || die "its partitions do not fit on $disks"
table="label: gpt\nstart=2048,size=2048,type=21686148-6449-6E6F-744E-656564454649\n"
table="${table}start=4096,size=131072,type=C12A7328-F81F-11D2-BA4B-00A0C93EC93B\n"
table="${table}start=135168,size=$((next - 135168)),type=$root\n$more"
part() { case $1 in *[0-9]) echo /dev/${1}p$2 ;; *) echo /dev/$1$2 ;; esac; }
for disk; do
  dd if=/dev/zero of=/dev/$disk bs=1M count=66 2> /dev/null || die "/dev/$disk cannot be written"
  printf "$table" | $own/sfdisk -q --no-tell-kernel --wipe always --wipe-partitions always /dev/$disk > /tmp/said 2>&1 ||
    die "sfdisk: $(tail -n 1 /tmp/said)"
  blockdev --rereadpt /dev/$disk 2> /dev/null
  udevadm settle --timeout=20 2> /dev/null
  tries=0
  until [ -b $(part $disk $number) ]; do
    tries=$((tries + 1)); [ $tries -gt 30 ] && die "no $(part $disk $number) appears"; sleep 1
  done
done
# What a partition of this number is called once it is there: itself, or an array of all that have the number.
volume() {
  [ $drives = 1 ] && { part $disks $1; return; }
  echo /dev/md$(($1 - 3))
}
# Mirrors are copied once the system has started: now that would slow down the installation. KiB/s of each array:
[ $drives = 1 ] || echo 1000 > /proc/sys/dev/raid/speed_limit_max
at=3
while [ $drives -gt 1 ] && [ $at -le $number ]; do
  members=
  for disk; do members="$members $(part $disk $at)"; done
  mdadm --create $(volume $at) --run --level=1 --raid-devices=$drives --metadata=1.2 --homehost=any --name=system$((at - 3)) \
    $members > /tmp/said 2>&1 || die "mdadm: $(tail -n 1 /tmp/said)"
  at=$((at + 1))
done
root=$(volume 3)

files=${url%/machine}/files
wget -q -O $root "$files/root.ext4" || die "the image ended early"
say "image is fetched, $(cut -d. -f1 /proc/uptime) s"
found=$(dd if=$root bs=1M count=$((image_bytes / 1048576)) 2> /dev/null | $own/sha256sum | cut -d' ' -f1)
[ "$found" = "$image_sha256" ] || {
  dd if=/dev/zero of=$root bs=1M count=1 2> /dev/null
  die "the image has another checksum than the server names"
}
say "image is as the server names it, $(cut -d. -f1 /proc/uptime) s"
$own/e2fsck -fp $root > /dev/null 2>&1
$own/resize2fs $root > /tmp/said 2>&1 || die "resize2fs: $(tail -n 1 /tmp/said)"
for disk; do
  dd if=/hpcforge/esp.img of=$(part $disk 2) bs=1M 2> /dev/null || die "the EFI partition cannot be written"
  dd if=/hpcforge/core.img of=$(part $disk 1) bs=512 2> /dev/null || die "GRUB cannot be written"
done

mkdir -p /target
mount -t ext4 $root /target || die "the written file system cannot be mounted"
kernel=$(cd /target/boot && ls vmlinuz-* | tail -n 1)
mkdir -p /target/boot/grub
# Debian's kernel packages move these links to the kernel that they install (linux-update-symlinks).
ln -sf "boot/$kernel" /target/vmlinuz
ln -sf "boot/initrd.img-${kernel#vmlinuz-}" /target/initrd.img
cat > /target/boot/grub/hpcforge.cfg <<EOF
linux /vmlinuz root=LABEL=root ro console=tty0 console=$console
initrd /initrd.img
boot
EOF
echo "$hostname" > /target/etc/hostname
printf '127.0.0.1 localhost\n%s %s\n' "$address" "$hostname" > /target/etc/hosts
echo 'LABEL=root / ext4 errors=remount-ro 0 1' > /target/etc/fstab
at=3
for partition in $partitions; do # in the order of their names: /var before /var/log
  at=$((at + 1)) where=${partition%=*} id=$(cat /proc/sys/kernel/random/uuid)
  $own/mke2fs -q -F -t ext4 -m 1 -U $id $(volume $at) > /tmp/said 2>&1 || die "mke2fs: $(tail -n 1 /tmp/said)"
  mkdir -p /target$where /moved
  mount -t ext4 $(volume $at) /moved || die "the partition of $where cannot be mounted"
  cp -a /target$where/. /moved || die "what is in $where cannot be copied"
  chmod $(stat -c %a /target$where) /moved
  umount /moved
  rm -rf /target$where
  mkdir -p /target$where
  mount -t ext4 $(volume $at) /target$where || die "the partition of $where cannot be mounted"
  echo "UUID=$id $where ext4 errors=remount-ro 0 2" >> /target/etc/fstab
done
: > /target/etc/machine-id
mkdir -p /target/etc/systemd/network
printf '[Match]\nPermanentMACAddress=%s\n\n[Network]\nAddress=%s/%s\n%sLinkLocalAddressing=no\nIPv6AcceptRA=no\n' \
  "$mac" "$address" "$prefix" "${gateway:+Gateway=$gateway
}" > /target/etc/systemd/network/10-hpcforge.network
ln -sf /lib/systemd/system/systemd-networkd.service /target/etc/systemd/system/multi-user.target.wants/systemd-networkd.service
if [ "$user" != root ]; then
  # The blueprint's number, which `apply` does not change later; without one, the next that is free.
  [ -z "$uid" ] || chroot /target /usr/sbin/groupadd --gid "$uid" "$user" || die "group $uid cannot be made"
  chroot /target /usr/sbin/useradd --create-home --shell /bin/bash \
    ${uid:+--uid "$uid" --gid "$uid"} "$user" || die "user $user cannot be made"
  mkdir -p /target/etc/sudoers.d
  printf '%s ALL=(ALL) NOPASSWD: ALL\n' "$user" > /target/etc/sudoers.d/hpcforge-first
  chmod 0440 /target/etc/sudoers.d/hpcforge-first
fi
home=$(chroot /target /bin/sh -c "getent passwd $user" | cut -d: -f6)
mkdir -p "/target$home/.ssh"
printf '%s\n' "$authorized_key" > "/target$home/.ssh/authorized_keys"
chmod 0700 "/target$home/.ssh"; chmod 0600 "/target$home/.ssh/authorized_keys"
chroot /target /bin/chown -R "$user:" "$home/.ssh"
chroot /target /usr/bin/ssh-keygen -A > /dev/null 2>&1
cat /target/etc/ssh/ssh_host_*_key.pub > /tmp/keys || die "no host keys were made"
for partition in $partitions; do mounted="/target${partition%=*} $mounted"; done
for path in $mounted /target; do umount $path || die "the written file system cannot be unmounted"; done
[ $drives = 1 ] || mdadm --stop --scan 2> /dev/null
# The whole disk comes last: after a write to it udev reads the table again, and partitions are gone for a moment.
for disk; do
  dd if=/hpcforge/boot.img of=/dev/$disk bs=440 count=1 conv=notrunc 2> /dev/null || die "GRUB cannot be written"
  printf 'hpcforge-installed:%s' "$marker" | dd of=/dev/$disk bs=512 seek=40 conv=notrunc,sync 2> /dev/null
done
sync
post end /tmp/keys > /dev/null || die "the server does not take the host keys"
say "installed, $(cut -d. -f1 /proc/uptime) s"
reboot -f
