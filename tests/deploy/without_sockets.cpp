// Runs a command that the kernel ends (SIGSYS) if it, or a child of it, calls socket, socketpair or connect: a seccomp
// filter. Usage: without_sockets COMMAND ARGUMENT...   Exit status 77 where the kernel has no such filters.
#include <linux/audit.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <iterator>

namespace {
constexpr sock_filter refused_if(unsigned call, unsigned char to_end) {
  return BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, to_end, 0);
}
}  // namespace

int main(int count, char** arguments) {
  if (count < 2) return 2;
  sock_filter rules[] = {
      BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
      refused_if(SYS_socket, 3),
      refused_if(SYS_socketpair, 2),
      refused_if(SYS_connect, 1),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
      BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
  };
  const sock_fprog filter{static_cast<unsigned short>(std::size(rules)), rules};
  if (::prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 || ::prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) != 0) {
    return 77;
  }
  ::execv(arguments[1], arguments + 1);
  std::perror(arguments[1]);
  return 2;
}
