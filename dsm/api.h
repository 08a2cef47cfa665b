// Shared memory for programs in C++ (in C: dsm/braid_dsm.h). main() runs once in every cluster, on the cluster's
// initial thread: single program, multiple data. parallel() runs a function on every compute node of the
// machine; a compute node is a thread.
//
//     int main(int argc, char** argv) {
//       braid::dsm::init();
//       double* a = braid::dsm::allocate<double>(n);             // the same address in every cluster
//       braid::dsm::parallel([&](braid::dsm::Node& node) {       // on every compute node
//         for (auto i : node.share(n)) a[i] = f(i);
//         node.barrier();
//         ...
//       });
//       return braid::dsm::finish(ok ? 0 : 1);
//     }
//
// Threads. The initial thread and the threads that run parallel()'s function may access shared memory. Other
// threads must be adopted first (dsm/threads.h). Signal handlers must not access it.
//
// Library functions and system calls. Functions that work in user space (memcpy, strlen, sort, sprintf) work on
// shared memory. System calls do not: the kernel does not fetch a page that is not present, and the call fails
// with EFAULT. Use read(), write(), fread() and fwrite() of this header, which copy through private memory. For
// any other system call copy through private memory yourself.
//
// Signals. A program may install handlers of SIGSEGV and SIGBUS by sigaction() or signal(), before or after init():
// they are called for its own faults, never for those of shared memory, on a stack of 128 KiB. SIGSEGV and SIGBUS
// are never blocked on compute nodes, and sigaltstack() does not replace their stack, although it reports that it
// did. A program that replaces these handlers by other means ends with a message at its next parallel().
//
// fork(). The child is not part of the machine: its first access to shared memory, and each call but clusters(),
// cluster() and nodes_per_cluster(), ends it with a message and status 70, and its parent goes on. Copy what the
// child needs to private memory before fork(). A child made inside parallel() must not return from the function.
// fork() with exec(), system(), popen() and posix_spawn() work.
//
// Consistency. Memory is release consistent: what a node wrote before unlock() or barrier() is visible to every
// node after its next lock() of the same lock or the same barrier(). Setting a flag, posting a semaphore and
// changing a word release too, and a node that observes the change sees everything that was written before it;
// MemoryOrder::kRelaxed switches that off for a call on a word. A program without data races behaves as on one
// machine with one memory.
//
// Errors. A call with a wrong argument, at a wrong time or from a wrong thread ends the program with a message
// that says what to change. No call throws or returns an error, except read(), write(), fread() and fwrite().
//
// A program that is started without `braid run` runs on one cluster, with BRAID_COMPUTE compute nodes (default
// 1) and without a service.
#pragma once

#include <sys/types.h>

#include <bit>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <functional>
#include <type_traits>

namespace braid::dsm {

// Which cluster is the home of each page of an allocation. The home keeps the page's master copy and accesses it
// at no cost; other clusters fetch copies.
struct Placement {
  enum class Kind : std::uint8_t { kBlock, kCyclic, kCluster, kFirstTouch };
  Kind kind = Kind::kBlock;
  unsigned cluster = 0;  // kCluster: the home of all pages

  // Of n clusters, cluster k is the home of the k-th n-th of the pages: for arrays on which nodes work in
  // contiguous shares.
  static constexpr Placement block() { return {}; }
  // Page i of the allocation at cluster i % n.
  static constexpr Placement cyclic() { return {Kind::kCyclic, 0}; }
  // All pages at `cluster`.
  static constexpr Placement on(unsigned cluster) { return {Kind::kCluster, cluster}; }
  // Each page at the cluster that accesses it first: for programs that initialise memory on the nodes that
  // use it later.
  static constexpr Placement first_touch() { return {Kind::kFirstTouch, 0}; }
};

// A half-open range of indices, for range-for loops.
class Range {
 public:
  class Iterator {
   public:
    explicit constexpr Iterator(std::size_t i) : i_(i) {}
    constexpr std::size_t operator*() const { return i_; }
    constexpr Iterator& operator++() {
      ++i_;
      return *this;
    }
    constexpr bool operator!=(const Iterator& o) const { return i_ != o.i_; }

   private:
    std::size_t i_;
  };
  constexpr Range(std::size_t first, std::size_t last) : first_(first), last_(last) {}
  constexpr Iterator begin() const { return Iterator(first_); }
  constexpr Iterator end() const { return Iterator(last_); }
  constexpr std::size_t first() const { return first_; }
  constexpr std::size_t last() const { return last_; }
  constexpr std::size_t size() const { return last_ - first_; }

 private:
  std::size_t first_, last_;
};

// The number of locks, barriers and so on. Programs name them by 0 .. number - 1. At the start locks are free,
// flags cleared, semaphores and words 0.
inline constexpr unsigned kLocks = 4096;
inline constexpr unsigned kBarriers = 64;
inline constexpr unsigned kConditions = 32768;
inline constexpr unsigned kFlags = 4096;
inline constexpr unsigned kSemaphores = 4096;
inline constexpr unsigned kWords = 4096;

// The operation that combines the values of a reduction.
enum class Reduce : std::uint8_t { kSum, kMin, kMax };

// The order that a call on a word imposes on other accesses.
enum class MemoryOrder : std::uint8_t {
  kAcquireRelease,  // it is an acquire and a release, as lock() and unlock() are
  kRelaxed,         // nothing but the word itself: faster, and enough for a counter that guards no memory
};

// A compute node: the argument of the function that parallel() runs. Used by the thread that runs that function,
// until it returns.
class Node {
 public:
  explicit Node(unsigned local) : local_(local) {}
  unsigned id() const;                       // 0 .. count() - 1; the nodes of a cluster have consecutive ids
  unsigned count() const;                    // compute nodes of the machine
  unsigned cluster() const;                  // 0 .. clusters() - 1
  unsigned local() const { return local_; }  // 0 .. nodes_per_cluster() - 1, in its cluster
  // This node's contiguous share of the indices 0 .. n - 1. The shares of all nodes cover them; sizes differ by at
  // most one.
  Range share(std::size_t n) const;
  // Waits until every node of the machine has called it for the same barrier, 0 .. kBarriers - 1. A release and an
  // acquire.
  void barrier(unsigned which = 0);
  // A barrier at which the figures of the run begin anew: its reports, counts and times tell what comes after it. For programs
  // that measure a part of themselves; counters that other commands read while the program runs go on. The memory keeps the state
  // that it has: pages that clusters have copies of, tokens of locks.
  void reset_figures(unsigned which = 0);
  // A barrier that combines the values of all nodes and returns the result to each. All nodes must pass the same
  // `how` and type. The order of the operations depends only on the numbers of clusters and nodes, so a sum of
  // floating-point numbers is the same in every run on the same machine. Computes in double, int64 or uint64.
  template <class T>
  T reduce(T value, Reduce how = Reduce::kSum, unsigned which = 0) {
    static_assert(std::is_arithmetic_v<T> && sizeof(T) <= 8, "reductions are of numbers of at most 64 bits");
    if constexpr (std::is_floating_point_v<T>) {
      return static_cast<T>(std::bit_cast<double>(
          reduce_bits(std::bit_cast<std::uint64_t>(static_cast<double>(value)), how, Type::kDouble, which)));
    } else {
      // Sign-extended or not, as the type says.
      return static_cast<T>(reduce_bits(static_cast<std::uint64_t>(value), how,
                                        std::is_signed_v<T> ? Type::kInt64 : Type::kUint64, which));
    }
  }

  // Waits until this node has the lock, 0 .. kLocks - 1. Not recursive. Nodes of one cluster pass a lock on without
  // a message; clusters get it in the order of their requests. An acquire; unlock() is a release.
  void lock(unsigned lock);
  // This node must have the lock.
  void unlock(unsigned lock);
  // Takes the lock if no node has it, and returns whether it did. It waits for other clusters' answers, but never until a node
  // frees the lock. It may fail although no node has the lock: while that is on its way between clusters.
  bool try_lock(unsigned lock);

  // Condition variables, 0 .. kConditions - 1, as in POSIX. condition_wait() frees `lock`, which this node must
  // have, waits for a signal, and has the lock again when it returns. Test the awaited condition in a loop: another
  // node may have had the lock in between. A signal that is sent while the sender has the lock is never lost. A
  // condition has no lock of its own: different calls may use different locks.
  void condition_wait(unsigned condition, unsigned lock);
  void condition_signal(unsigned condition);     // wakes the node that has waited longest, if any
  void condition_broadcast(unsigned condition);  // wakes all nodes that wait

  // Flags, 0 .. kFlags - 1. flag_wait() returns once the flag is set, at once if it is set already.
  void flag_set(unsigned flag);
  void flag_wait(unsigned flag);
  void flag_clear(unsigned flag);

  // Counting semaphores, 0 .. kSemaphores - 1. semaphore_wait() waits until the value is above 0 and takes 1 from it;
  // nodes are served in the order of their calls.
  void semaphore_post(unsigned semaphore, std::uint32_t count = 1);
  void semaphore_wait(unsigned semaphore);

  // The same objects in any number, named by addresses: any address of shared memory that is a multiple of 4 is the name of a
  // lock, a condition, a flag, a semaphore and a barrier, all in their initial state (free, cleared, 0). Nothing is stored at
  // the address: the memory there may be used for anything, and the calls do not touch it. Nothing is created or destroyed. A lock,
  // a flag that is set and a semaphore above 0 take some 50 bytes in at most two clusters; others take no memory.
  //
  // A lock that only one cluster uses costs a message there and one back once, and then nothing; objects of a page belong to
  // one cluster, page % clusters, where all calls but those of locks cost a message there and one back.
  void lock_at(const void* lock);
  bool try_lock_at(const void* lock);
  void unlock_at(const void* lock);
  void condition_wait_at(const void* condition, const void* lock);
  void condition_signal_at(const void* condition);
  void condition_broadcast_at(const void* condition);
  // Waits until `nodes` compute nodes, this one among them, have called it for this barrier: any ones, as many as all name. A
  // release and an acquire. Then the barrier may be used again, at once, also by others and for another number.
  void barrier_at(const void* barrier, unsigned nodes);
  void flag_set_at(const void* flag);
  void flag_wait_at(const void* flag);
  void flag_clear_at(const void* flag);
  void semaphore_set_at(const void* semaphore, std::uint32_t value);  // whatever it was
  void semaphore_post_at(const void* semaphore, std::uint32_t count = 1);
  void semaphore_wait_at(const void* semaphore);
  // Takes 1 if the value is above 0, and returns whether it did.
  bool semaphore_try_at(const void* semaphore);

  // Atomic words of 64 bits, 0 .. kWords - 1. A word lives at one cluster, word % clusters(), outside the shared
  // memory: a call from another cluster costs one message there and one back. Each call returns the value before it.
  std::int64_t fetch_add(unsigned word, std::int64_t summand,
                         MemoryOrder order = MemoryOrder::kAcquireRelease);
  std::int64_t exchange(unsigned word, std::int64_t value, MemoryOrder order = MemoryOrder::kAcquireRelease);
  // Stores `desired` if the word is `expected`; it did so if it returns `expected`.
  std::int64_t compare_exchange(unsigned word, std::int64_t expected, std::int64_t desired,
                                MemoryOrder order = MemoryOrder::kAcquireRelease);
  // An acquire.
  std::int64_t load(unsigned word);
  void store(unsigned word, std::int64_t value, MemoryOrder order = MemoryOrder::kAcquireRelease);

  // As braid::dsm::allocate_bytes(), allocate_array() and allocate() inside parallel(): by this node alone.
  void* allocate_bytes(std::size_t bytes, Placement placement = {});
  void* allocate_array(std::size_t count, std::size_t element_bytes, Placement placement = {});
  template <class T>
  T* allocate(std::size_t count, Placement placement = {}) {
    static_assert(std::is_trivially_copyable_v<T>, "shared memory is shared bytes: no constructors run");
    return static_cast<T*>(allocate_array(count, sizeof(T), placement));
  }

 private:
  enum class Type : std::uint8_t { kDouble, kInt64, kUint64 };
  std::uint64_t reduce_bits(std::uint64_t bits, Reduce how, Type type, unsigned which);

  unsigned local_;
};

// The compute node that calls, for functions that its Node is not passed to. Ends the program with a message outside
// parallel(), and in a thread that is no compute node.
Node self();

// Has the lock while it lives.
class LockGuard {
 public:
  LockGuard(Node& node, unsigned lock) : node_(node), lock_(lock) { node_.lock(lock_); }
  ~LockGuard() { node_.unlock(lock_); }
  LockGuard(const LockGuard&) = delete;
  LockGuard& operator=(const LockGuard&) = delete;

 private:
  Node& node_;
  unsigned lock_;
};

// The same for a lock at an address.
class LockGuardAt {
 public:
  LockGuardAt(Node& node, const void* lock) : node_(node), lock_(lock) { node_.lock_at(lock_); }
  ~LockGuardAt() { node_.unlock_at(lock_); }
  LockGuardAt(const LockGuardAt&) = delete;
  LockGuardAt& operator=(const LockGuardAt&) = delete;

 private:
  Node& node_;
  const void* lock_;
};

// Joins the machine that `braid run` has described in the environment, and waits for the other clusters. The first
// call of a program, once, by the initial thread.
void init();

// Any thread, between init() and finish().
unsigned clusters();           // of the machine
unsigned cluster();            // this one, 0 .. clusters() - 1
unsigned nodes_per_cluster();  // compute nodes

// The length of a page of shared memory, which is fetched and protected as a whole: 4096, or what the run was given
// (--page-bytes). Clusters that write different pages do not disturb each other. Any thread, any time.
std::size_t page_bytes();

// Allocates shared memory: zeroed, page-aligned, rounded up to pages of page_bytes(). It is never freed before finish(). A
// pointer to it is valid in every cluster. Ends the program with a message when the heap is too small for it.
//
// Outside parallel(): the initial threads of all clusters make the same call, and each gets the same pointer.
// Inside parallel(): any compute node alone, at any time; it passes the pointer to other nodes through shared
// memory. Such a call costs a message to every cluster: allocate much at once.
void* allocate_bytes(std::size_t bytes, Placement placement = {});
// Memory for `count` elements of `element_bytes` each. A product that exceeds size_t ends the program too.
void* allocate_array(std::size_t count, std::size_t element_bytes, Placement placement = {});
template <class T>
T* allocate(std::size_t count, Placement placement = {}) {
  static_assert(std::is_trivially_copyable_v<T>, "shared memory is shared bytes: no constructors run");
  return static_cast<T*>(allocate_array(count, sizeof(T), placement));
}

// Blocks of shared memory of any size, as malloc(3) and so on. Inside parallel(), by any compute node alone, at any time; a
// block may be freed, or reallocated, by another node, after those that have used it have synchronised with that one.
// Aligned to 16 bytes, from 2 KiB on to 64, from 32 KiB on to 4096; contents are arbitrary, but for shared_calloc(). Calls
// send no messages, but for one in many that takes more of the heap or returns blocks to their cluster; pages belong to the
// cluster that uses them first. End the program with a message when the heap is too small, when `memory` is no block of these,
// and when a block is freed twice, as far as that can be seen.
void* shared_malloc(std::size_t bytes);
void* shared_calloc(std::size_t count, std::size_t element_bytes);
void* shared_realloc(void* memory, std::size_t bytes);
void shared_free(void* memory);

// Runs `body` on every compute node of the machine, and returns when all calls have returned. A barrier before
// and after it makes all writes visible everywhere. The initial threads of all clusters make the same calls.
void parallel(const std::function<void(Node&)>& body);

// read(2), write(2), fread(3) and fwrite(3), which take shared memory under their own names, too (docs/PROGRAMS.md). A
// size * count that exceeds size_t ends the program with a message.
ssize_t read(int fd, void* buffer, std::size_t bytes);
ssize_t write(int fd, const void* buffer, std::size_t bytes);
std::size_t fread(void* buffer, std::size_t size, std::size_t count, std::FILE* file);
std::size_t fwrite(const void* buffer, std::size_t size, std::size_t count, std::FILE* file);

// Fetches all pages of a range, readable or writable, so that later accesses do not fault. A hint for speed:
// another cluster's write can invalidate them again at any time. The bytes are not changed.
void prepare_read(const void* memory, std::size_t bytes);
void prepare_write(void* memory, std::size_t bytes);

// Asks for the pages of a range that are not here, and does not wait for them: the round trips then overlap with what the
// node does next, and neighbouring pages share messages. At most 32 pages for each compute node of a cluster are on their
// way at once, so ask again as the work gets on. A hint as prepare_read(); memory that is not shared is ignored. The initial
// thread or a compute node; another thread's call ends the program with a message.
void prefetch(const void* memory, std::size_t bytes);

// Copies `bytes` from one place to another that does not overlap it, as memcpy(3), with the pages of both fetched ahead, 64 KiB
// at a time. Either may be private memory. Ranges that overlap end the program with a message. Threads as prefetch().
void copy(void* to, const void* from, std::size_t bytes);

// Seconds since an unspecified moment, by a monotonic clock; in simulation, virtual time.
double seconds();

// Leaves the machine and returns `status`, for main() to return. Waits until every cluster has called it. A process
// that ends without it ends the run as a failure. Shared memory must not be accessed afterwards. Initial thread.
int finish(int status);

}  // namespace braid::dsm
