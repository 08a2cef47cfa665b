#include "dsm/live/crew.h"

#include <pthread.h>

#include <string>

#include "dsm/live/start_thread.h"
#include "dsm/live/this_thread.h"
#include "dsm/program/faults.h"

namespace braid::dsm {

Crew::Crew(unsigned nodes, PulseWriter& pulse) : pulse_(pulse), nodes_(nodes) {
  threads_.reserve(nodes - 1);
}

void Crew::start_threads() {
  while (threads_.size() < nodes_ - 1)
    threads_.push_back(start_thread("of a compute node", &Crew::serve_node, this,
                                    static_cast<unsigned>(threads_.size() + 1)));
}

Crew::~Crew() {
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    dismissed_ = true;
  }
  called_.notify_all();
  for (std::thread& thread : threads_) thread.join();
}

void Crew::run(const std::function<void(unsigned)>& job) {
  start(job);
  job(0);
  wait();
}

void Crew::start(const std::function<void(unsigned)>& job) {
  start_threads();
  {
    const std::lock_guard<std::mutex> guard(mutex_);
    job_ = &job;
    ++round_;
    running_ = static_cast<unsigned>(threads_.size());
  }
  called_.notify_all();
}

void Crew::wait() {
  std::unique_lock<std::mutex> guard(mutex_);
  done_.wait(guard, [this] { return running_ == 0; });
}

void Crew::serve_node(unsigned local) {
  const SignalStack stack;
  this_thread.local = static_cast<int>(local);
  ::pthread_setname_np(::pthread_self(), ("node " + std::to_string(local)).c_str());  // for debuggers and top
  for (std::uint64_t seen = 0;;) {
    const std::function<void(unsigned)>* job = nullptr;
    {
      std::unique_lock<std::mutex> guard(mutex_);
      called_.wait(guard, [&] { return dismissed_ || round_ != seen; });
      if (dismissed_) return;
      seen = round_;
      job = job_;
    }
    {
      const PulseWriter::Computing computing(pulse_);
      (*job)(local);
    }
    const std::lock_guard<std::mutex> guard(mutex_);
    if (--running_ == 0) done_.notify_one();
  }
}

}  // namespace braid::dsm
