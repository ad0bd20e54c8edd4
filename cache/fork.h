// Objects that must be in a defined state when the program forks: their mutexes are held across the fork, and the child
// drops what belonged to threads it does not have.
// Used by the table of compiles in flight, by the file locks, by the front door and by kernels' tables of variants.
#pragma once

namespace tileweave::cache {

class ForkAware {
 public:
  ForkAware(const ForkAware&) = delete;
  ForkAware& operator=(const ForkAware&) = delete;

 protected:
  ForkAware();
  ~ForkAware();

 private:
  friend struct ForkRegistry;
  virtual void before_fork() = 0;              // take every mutex of the object
  virtual void after_fork(bool is_child) = 0;  // release them; in the child, first drop what is another thread's
};

// A fork waits for mutexes in this order: whoever holds one may be waiting for one further down. `running_code` waits
// for code whose own locks we do not know (LLVM), while all others are held.
enum class ForkOrder { variants, queues, tables, running_code };

// Call at the end of the constructor and at the start of the destructor of the most derived class, so that the
// handlers never see half an object.
void watch_forks(ForkAware& object, ForkOrder order = ForkOrder::tables);
void unwatch_forks(ForkAware& object);

}  // namespace tileweave::cache
