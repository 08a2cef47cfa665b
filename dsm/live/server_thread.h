// The thread that serves a cluster while no compute node polls: it sleeps until
// the network's bell rings, and regularly checks whether a peer was lost.
#pragma once

#include <atomic>
#include <functional>
#include <thread>

#include "dsm/live/combiner.h"
#include "dsm/live/network.h"
#include "dsm/live/pollers.h"

namespace braid::dsm {

class ServerThread {
 public:
  // Starts the thread, which also calls watch() with the time and the combiner lock held, some times a second. All arguments
  // outlive it.
  ServerThread(Network& network, Combiner& combiner, Pollers& pollers,
               std::function<void(Instant)> watch = {});
  // Ends the thread.
  ~ServerThread();
  ServerThread(const ServerThread&) = delete;
  ServerThread& operator=(const ServerThread&) = delete;

 private:
  void run();
  void serve();

  Network& network_;
  Combiner& combiner_;
  Pollers& pollers_;
  const std::function<void(Instant)> watch_;
  const bool no_bell_;  // Network::moves_only_in_poll()
  std::atomic<bool> stopping_{false};
  int idle_serves_ = 0;  // since it slept or handled something
  std::thread thread_;
};

}  // namespace braid::dsm
