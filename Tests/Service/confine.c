// Runs a program as the service manager would run it under Deploy/simp-server.service: an unprivileged user without
// capabilities, on a system that is read-only but for one directory, with a list of system calls.
//
//   confine UID DIRECTORY SYSCALLS PROGRAM [ARGUMENT…]
//
// SYSCALLS is a file with a name a line; what is not on it fails with EPERM. Needs root.
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <grp.h>
#include <linux/mount.h>
#include <sched.h>
#include <seccomp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#ifndef PR_SET_MDWE
#define PR_SET_MDWE 65
#define PR_MDWE_REFUSE_EXEC_GAIN 1
#endif

static void need(int good, const char *what) {
  if (good) return;
  fprintf(stderr, "confine: %s: %s\n", what, strerror(errno));
  exit(125);
}

// ProtectSystem=strict, StateDirectory=, ProcSubset=pid, ProtectProc=invisible, PrivateDevices= (near enough).
static void hide_the_system(const char *directory) {
  need(unshare(CLONE_NEWNS) == 0, "a mount namespace");
  need(mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) == 0, "make mounts private");
  need(mount(directory, directory, NULL, MS_BIND, NULL) == 0, "bind the state directory");
  struct mount_attr attributes = {.attr_set = MOUNT_ATTR_RDONLY | MOUNT_ATTR_NOSUID};
  need(syscall(SYS_mount_setattr, AT_FDCWD, "/", AT_RECURSIVE, &attributes, sizeof attributes) == 0, "read-only");
  struct mount_attr writable = {.attr_clr = MOUNT_ATTR_RDONLY};
  need(syscall(SYS_mount_setattr, AT_FDCWD, directory, 0, &writable, sizeof writable) == 0, "a writable directory");
  need(mount("proc", "/proc", "proc", MS_NOSUID | MS_NODEV | MS_NOEXEC, "hidepid=invisible,subset=pid") == 0, "proc");
}

static void drop_privileges(unsigned user) {
  for (int capability = 0; prctl(PR_CAPBSET_READ, capability, 0, 0, 0) >= 0; capability++)
    need(prctl(PR_CAPBSET_DROP, capability, 0, 0, 0) == 0, "drop a capability");
  need(setgroups(0, NULL) == 0 && setgid(user) == 0 && setuid(user) == 0, "another user");
  need(setuid(0) != 0, "no way back to root");
  need(prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0, "no new privileges");
  // MemoryDenyWriteExecute=. Kernels before 6.3 do not know it; EPERM: the test's own sandbox has it in force already.
  if (prctl(PR_SET_MDWE, PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0) != 0) need(errno == EINVAL || errno == EPERM, "MDWE");
  umask(0077);
}

static void allow_calls(const char *path) {
  scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
  need(filter != NULL, "a filter");
  FILE *file = fopen(path, "r");
  need(file != NULL, path);
  char name[64];
  int count = 0;
  while (fscanf(file, "%63s", name) == 1) {
    int call = seccomp_syscall_resolve_name(name);
    // Of another architecture, or too new for this library.
    if (call == __NR_SCMP_ERROR || call < 0 || strcmp(name, "socket") == 0) continue;
    need(seccomp_rule_add(filter, SCMP_ACT_ALLOW, call, 0) == 0, name);
    count++;
  }
  fclose(file);
  need(count > 100, "a list of system calls");
  // RestrictAddressFamilies=.
  int families[] = {AF_UNIX, AF_INET, AF_INET6};
  for (int index = 0; index < 3; index++)
    need(seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(socket), 1, SCMP_A0(SCMP_CMP_EQ, families[index])) == 0,
         "address families");
  need(seccomp_load(filter) == 0, "load the filter");
  seccomp_release(filter);
}

int main(int count, char **arguments) {
  if (count < 5) {
    fprintf(stderr, "usage: confine UID DIRECTORY SYSCALLS PROGRAM [ARGUMENT...]\n");
    return 125;
  }
  hide_the_system(arguments[2]);
  drop_privileges((unsigned)strtoul(arguments[1], NULL, 10));
  allow_calls(arguments[3]);
  execv(arguments[4], arguments + 4);
  need(0, arguments[4]);
}
