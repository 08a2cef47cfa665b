// Threads of the C++ library are cancelled by their native handles: destructors of what is on their stacks and of thread-local
// variables are called, and catch (...) sees it. main() ends by pthread_exit().
#include <pthread.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <mutex>
#include <thread>

namespace {

std::mutex mutex;
std::condition_variable condition;
std::atomic<int> destroyed{0}, caught{0}, handled{0}, begun{0}, wrong{0};

void expect(bool right, const char* what) {
  if (right) return;
  std::printf("wrong: %s\n", what);
  ++wrong;
}

struct Counted {
  ~Counted() { ++destroyed; }
};
thread_local Counted counted;

void count(void* counter) {
  ++*static_cast<std::atomic<int>*>(counter);
}

void sleep_long() {
  ++begun;
  std::this_thread::sleep_for(std::chrono::seconds(100));
}
void wait_for_condition() {
  std::unique_lock<std::mutex> hold(mutex);
  ++begun;
  condition.wait(hold, [] { return false; });
}
void wait_for_condition_until() {
  std::unique_lock<std::mutex> hold(mutex);
  ++begun;
  condition.wait_for(hold, std::chrono::seconds(100), [] { return false; });
}
void wait_in_initialiser() {
  static const int value = [] {
    ++begun;
    ::sleep(begun == 1 ? 100 : 0);
    return 7;
  }();
  expect(value == 7, "a static variable");
}

void cancel_in(void (*wait)(), const char* what) {
  destroyed = caught = handled = begun = 0;
  std::thread thread([wait] {
    const Counted on_stack;
    (void)&counted;
    pthread_cleanup_push(count, &handled);
    try {
      const Counted inside;
      wait();
      expect(false, "the end of a wait");
    } catch (...) {
      ++caught;
      throw;
    }
    pthread_cleanup_pop(0);
  });
  while (begun == 0) usleep(100);
  usleep(3000);
  expect(pthread_cancel(thread.native_handle()) == 0, what);
  thread.join();
  expect(destroyed == 3 && caught == 1 && handled == 1, what);
  std::unique_lock<std::mutex> hold(mutex, std::try_to_lock);
  expect(hold.owns_lock(), "the mutex is free");
}

struct Last {
  ~Last() { std::printf("main() has ended, %d wrong\n", wrong.load()); }
};

}  // namespace

int main() {
  cancel_in(sleep_long, "std::this_thread::sleep_for()");
  cancel_in(wait_for_condition, "std::condition_variable::wait()");
  cancel_in(wait_for_condition_until, "std::condition_variable::wait_for()");
  cancel_in(wait_in_initialiser, "the initialiser of a static variable");
  std::thread(wait_in_initialiser).join();
  expect(begun == 2, "the initialiser of a static variable again");
  std::printf("cancels of C++: %d wrong\n", wrong.load());
  const Last last;
  pthread_exit(nullptr);
}
