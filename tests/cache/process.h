// Starting, joining and judging worker processes.
// For the process tests; a process gets exactly the environment it is given.
#pragma once

#include <fcntl.h>
#include <grp.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "../unit/cache/temporary_directory.h"

namespace tileweave::cache {

struct Command {
  std::vector<std::string> options;
  std::map<std::string, std::string> environment;
  uid_t user = 0;         // 0: as the test
  bool hostile = false;   // the worker with the hostile calls
  bool quiet = false;     // do not keep what it prints
  unsigned alarm_s = 60;  // a hang is a failure
};

struct Outcome {
  int status = -1;  // exit status, or -signal
  std::string out, err;

  std::uint64_t counter(const std::string& name) const {
    const std::string text = "\n" + out;
    const std::size_t at = text.find("\n" + name + "=");
    return at == std::string::npos ? ~0ULL : std::stoull(text.substr(at + name.size() + 2));
  }
  std::size_t warnings() const {
    std::size_t count = 0;
    for (std::size_t at = err.find("warning"); at != std::string::npos; at = err.find("warning", at + 1)) ++count;
    return count;
  }
};

class Process {
 public:
  // `start_pipe`: the read end of a pipe that the worker waits on, or -1.
  explicit Process(const Command& command, int start_pipe = -1) {
    out_ = ::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    err_ = ::open("/tmp", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
    std::vector<std::string> words = {command.hostile ? CACHE_WORKER_HOSTILE : CACHE_WORKER};
    words.insert(words.end(), command.options.begin(), command.options.end());
    if (start_pipe >= 0) words.push_back("--start-fd=" + std::to_string(start_pipe));
    std::vector<std::string> variables;
    for (const auto& [name, value] : command.environment) variables.push_back(name + "=" + value);
    std::vector<char*> argv, envp;
    for (std::string& w : words) argv.push_back(w.data());
    for (std::string& v : variables) envp.push_back(v.data());
    argv.push_back(nullptr);
    envp.push_back(nullptr);
    pid_ = ::fork();
    if (pid_ != 0) return;
    ::dup2(out_, 1);
    ::dup2(err_, 2);
    if (start_pipe >= 0) ::fcntl(start_pipe, F_SETFD, 0);
    ::alarm(command.alarm_s);
    if (command.user != 0 &&
        (::setgroups(0, nullptr) != 0 || ::setresgid(command.user, command.user, command.user) != 0 ||
         ::setresuid(command.user, command.user, command.user) != 0)) {
      ::_exit(126);
    }
    ::execve(argv[0], argv.data(), envp.data());
    ::_exit(127);
  }
  Process(Process&& other) noexcept
      : pid_(std::exchange(other.pid_, -1)), out_(std::exchange(other.out_, -1)), err_(std::exchange(other.err_, -1)) {}
  ~Process() {
    if (pid_ > 0) {
      ::kill(pid_, SIGKILL);
      ::waitpid(pid_, nullptr, 0);
    }
    if (out_ >= 0) ::close(out_);
    if (err_ >= 0) ::close(err_);
  }

  pid_t pid() const { return pid_; }

  Outcome join() {
    int status = 0;
    ::waitpid(pid_, &status, 0);
    pid_ = -1;
    return {WIFEXITED(status) ? WEXITSTATUS(status) : -WTERMSIG(status), text_of_file(out_), text_of_file(err_)};
  }

 private:
  static std::string text_of_file(int file) {
    std::string text;
    char buffer[4096];
    off_t at = 0;
    for (ssize_t n = 0; (n = ::pread(file, buffer, sizeof(buffer), at)) > 0; at += n) {
      text.append(buffer, static_cast<std::size_t>(n));
    }
    return text;
  }
  pid_t pid_ = -1;
  int out_ = -1, err_ = -1;
};

inline Outcome run_worker(const Command& command) { return Process(command).join(); }

// Starts all at one moment and joins them.
inline std::vector<Outcome> run_together(const std::vector<Command>& commands) {
  int start[2];
  if (::pipe2(start, O_CLOEXEC) != 0) return {};
  std::vector<Process> processes;
  processes.reserve(commands.size());
  for (const Command& c : commands) processes.emplace_back(c, start[0]);
  ::close(start[0]);
  ::close(start[1]);
  std::vector<Outcome> outcomes;
  for (Process& p : processes) outcomes.push_back(p.join());
  return outcomes;
}

// The usual worker: a private root below `tmp`.
inline Command worker_in(const TemporaryDirectory& tmp, std::vector<std::string> options = {}) {
  Command command;
  command.options = std::move(options);
  command.environment = {{"TILEWEAVE_CACHE_DIR", tmp / "cache"}};
  return command;
}

inline std::size_t lines_in(const std::string& path) {
  const std::string text = file_text(path);
  return static_cast<std::size_t>(std::count(text.begin(), text.end(), '\n'));
}
inline bool temporaries_are_gone(const TemporaryDirectory& tmp) { return files_below(tmp / "cache/v1/tmp").empty(); }

inline bool is_root() { return ::geteuid() == 0; }

}  // namespace tileweave::cache
