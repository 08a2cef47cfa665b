// Wakes proxies that sleep on futex words (base/wake_word.h) when something arrives at their sockets: one thread that
// waits on all sockets of a daemon.
//
// A socket is armed for one wake when its proxy announces a sleep, so a busy proxy costs the thread nothing. The kernel looks at a
// socket's watchers with every datagram that arrives or has left, also if it is not armed; so the sockets of busy proxies should leave.
// The words belong to the waker: the thread may still look at one whose queue has just gone.
#pragma once

#include <deque>
#include <memory>
#include <thread>

#include "base/result.h"
#include "base/wake_word.h"

namespace braid::proxy {

class SocketWaker {
 public:
  // Starts the thread. An error names what the system refuses.
  static Result<std::unique_ptr<SocketWaker>> start();
  // Ends the thread; no socket is armed from now on.
  ~SocketWaker();
  SocketWaker(const SocketWaker&) = delete;
  SocketWaker& operator=(const SocketWaker&) = delete;

  // A word that is rung when something arrives at `socket` after arm(). Before the proxies' threads start; the word
  // lives as long as the waker. The socket leaves at the latest by being closed.
  Result<WakeWord*> add(int socket);
  // The next arrival, or one that is there already, rings the word if it is asleep. The descriptor may be another socket
  // than add() was told of. Any thread.
  void arm(int socket, WakeWord* word);
  // Until arm() is called again. Any thread.
  void leave(int socket);

 private:
  SocketWaker(int epoll, int stop) : epoll_(epoll), stop_(stop) {}
  void run();

  const int epoll_;
  const int stop_;  // an eventfd
  std::deque<WakeWord> words_;
  std::thread thread_;
};

}  // namespace braid::proxy
