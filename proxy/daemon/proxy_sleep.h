// How the thread of a proxy without work sleeps: on all words of its worker at once, until somebody who has given it
// something to do rings one of them (base/wake_word.h).
//
// Where it cannot be woken, because a queue has no word or the kernel refuses, the caller sleeps for a short time
// instead and polls.
#pragma once

#include <functional>

#include "base/result.h"
#include "base/time.h"
#include "proxy/channel/node_counters.h"
#include "proxy/daemon/worker.h"

namespace braid::proxy {

// Owned by the worker's thread.
class ProxySleep {
 public:
  // A sleep ends after so long, whoever wakes: the heartbeat goes on, and a waker that died between publishing and
  // waking delays nothing for longer.
  static constexpr Duration kLongest = 100_ms;

  // `counters` count the sleeps. They and the worker outlive this. `allowed`: supported(), and wanted.
  ProxySleep(Worker& worker, ProxyCounters& counters, bool allowed);

  // Asks the kernel for what it takes, and has the process take part. An error: what is refused.
  static Result<void> supported();

  enum class Outcome : std::uint8_t {
    kWoken,
    kTimeout,
    kWorked,    // the last look found work
    kMustPoll,  // it cannot be woken at the moment
  };
  // Until somebody wakes it, or until `deadline`. `turn` is the last look for work: a turn of the worker, which
  // returns how much was done.
  Outcome sleep(Instant deadline, const std::function<int()>& turn);

 private:
  struct Protocol;
  bool can_be_woken();
  void count_wake();

  Worker& worker_;
  ProxyCounters& counters_;
  bool allowed_;
  Worker::WakeWords words_;
};

}  // namespace braid::proxy
