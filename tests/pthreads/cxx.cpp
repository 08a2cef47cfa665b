// The C++ library's threads: std::thread, mutexes, conditions, futures, atomics, and containers in shared memory.
#include <unistd.h>

#include <atomic>
#include <barrier>
#include <chrono>
#include <condition_variable>
#include <cstdio>
#include <deque>
#include <future>
#include <latch>
#include <map>
#include <memory>
#include <mutex>
#include <numeric>
#include <semaphore>
#include <shared_mutex>
#include <string>
#include <thread>
#include <vector>

namespace {

std::atomic<int> wrong{0};
#define CHECK(what) ((what) ? 0 : (std::fprintf(stderr, "%s:%d: %s\n", __func__, __LINE__, #what), ++wrong))

// Made before main().
std::map<std::string, std::vector<int>> table{{"a name that is too long for the string itself", {1, 2, 3}}};
std::mutex table_mutex;

class Queue {
 public:
  void push(std::string text) {
    {
      const std::lock_guard hold(mutex_);
      texts_.push_back(std::move(text));
    }
    changed_.notify_one();
  }
  std::string pop() {
    std::unique_lock hold(mutex_);
    changed_.wait(hold, [this] { return !texts_.empty(); });
    std::string text = std::move(texts_.front());
    texts_.pop_front();
    return text;
  }
  bool empty_after(std::chrono::milliseconds time) {
    std::unique_lock hold(mutex_);
    return !changed_.wait_for(hold, time, [this] { return !texts_.empty(); });
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::string> texts_;
};

struct Counted {
  static std::atomic<int> made;
  Counted() { ++made; }
  std::string text = std::string(100, 'x');
};
std::atomic<int> Counted::made{0};

const Counted& the_only() {
  static const Counted only;
  return only;
}

struct Account {
  std::mutex mutex;
  long money = 1000;
};

void transfer(Account& from, Account& to, long money) {
  const std::scoped_lock hold(from.mutex, to.mutex);  // takes both without a deadlock: by try_lock()
  from.money -= money;
  to.money += money;
}

// What waits by the address of an atomic: the library counts who waits in a table of its own. Each wait begins before what ends it.
void wait_by_addresses() {
  std::atomic<bool> byte{false};
  std::atomic<int> word{0};
  std::atomic<long> two_words{0};
  std::thread waiter([&] {
    byte.wait(false);
    word.wait(0);
    two_words.wait(0);
    CHECK(byte && word == 1 && two_words == 1);
  });
  const auto later = [] { std::this_thread::sleep_for(std::chrono::milliseconds(20)); };
  later(), byte = true, byte.notify_one();
  later(), word = 1, word.notify_all();
  later(), two_words = 1, two_words.notify_all();
  waiter.join();

  constexpr int kThreads = 3;
  std::latch begun(kThreads);
  int phases = 0;
  std::barrier barrier(kThreads, [&]() noexcept { ++phases; });
  std::counting_semaphore<2> two(2);
  std::atomic<int> inside{0};
  std::vector<long> sums(kThreads);
  std::vector<std::jthread> threads;
  for (int t = 0; t < kThreads; ++t) {
    threads.emplace_back([&, t] {
      begun.arrive_and_wait();
      for (int i = 0; i < 10; ++i) {
        sums[static_cast<std::size_t>(t)] += t + 1;
        barrier.arrive_and_wait();
        CHECK(std::accumulate(sums.begin(), sums.end(), 0L) == 6L * (i + 1));
        barrier.arrive_and_wait();
        two.acquire();
        CHECK(++inside <= 2);
        --inside;
        two.release();
      }
    });
  }
  threads.clear();
  CHECK(phases == 20);
}

// Each holds the mutex until its thread-local objects are gone.
void notify_at_ends() {
  std::mutex mutex;
  std::condition_variable changed;
  static int begun = 0, gone = 0;
  struct Last {
    ~Last() { ++gone; }
  };
  std::vector<std::thread> threads;
  for (int t = 0; t < 2; ++t) {
    threads.emplace_back([&] {
      thread_local Last last;
      (void)&last;
      std::unique_lock hold(mutex);
      ++begun;
      std::notify_all_at_thread_exit(changed, std::move(hold));
      CHECK(!hold);
    });
  }
  {
    std::unique_lock hold(mutex);
    changed.wait(hold, [&] { return begun == 2; });
    CHECK(gone == 2);
  }
  for (std::thread& thread : threads) thread.join();
}

}  // namespace

// The library has the locks of these.
std::shared_ptr<long> replaced = std::make_shared<long>(0);
void replace_a_shared_pointer() {
  std::vector<std::thread> threads;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([] {
      for (int i = 0; i < 200; ++i) {
        std::shared_ptr<long> seen = std::atomic_load(&replaced);
        while (!std::atomic_compare_exchange_weak(&replaced, &seen, std::make_shared<long>(*seen + 1)))
          continue;
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  CHECK(*replaced == 600 && replaced.use_count() == 1);
}

int main() {
  Queue in, out;  // on main()'s stack
  std::vector<std::thread> threads;
  Account accounts[2];
  std::atomic<long> sum{0};
  auto counter = std::make_shared<int>(7);
  std::once_flag once;
  int once_calls = 0;
  std::shared_mutex shared;
  for (int t = 0; t < 3; ++t) {
    threads.emplace_back([&, t, counter] {
      for (int i = 0; i < 5; ++i) out.push(in.pop() + " from thread number " + std::to_string(*counter));
      for (int i = 0; i < 20; ++i) transfer(accounts[(t + i) % 2], accounts[(t + i + 1) % 2], t);
      for (int i = 0; i < 50; ++i) sum.fetch_add(i, std::memory_order_relaxed);
      std::call_once(once, [&] { ++once_calls; });
      CHECK(the_only().text.size() == 100);
      {
        const std::shared_lock hold(shared);
        CHECK(once_calls == 1);
      }
      thread_local std::string mine = "own";
      mine += std::to_string(t);
      CHECK(mine == "own" + std::to_string(t));
      const std::lock_guard hold(table_mutex);
      table["thread " + std::to_string(t) + ", with a name that is long"].push_back(t);
    });
  }
  for (int i = 0; i < 15; ++i) in.push("text " + std::to_string(i));
  std::size_t letters = 0;
  for (int i = 0; i < 15; ++i) letters += out.pop().size();
  for (std::thread& thread : threads) thread.join();
  CHECK(letters == 15 * 27 + 5);
  CHECK(std::thread::hardware_concurrency() == static_cast<unsigned>(::sysconf(_SC_NPROCESSORS_ONLN)));
  CHECK(accounts[0].money + accounts[1].money == 2000);
  CHECK(sum == 3 * 1225 && counter.use_count() == 1 && once_calls == 1 && Counted::made == 1);
  CHECK(table.size() == 4 && table.begin()->second.size() == 3);
  CHECK(out.empty_after(std::chrono::milliseconds(10)));

  std::future<int> future = std::async(std::launch::async, [] { return 42; });
  CHECK(future.get() == 42);
  std::promise<std::string> promise;
  std::thread giver([&] { promise.set_value("a result that is longer than a string itself"); });
  CHECK(promise.get_future().get().size() == 44);
  giver.join();
  std::future<void> failing = std::async(std::launch::async, [] { throw std::runtime_error("told"); });
  try {
    failing.get();
    CHECK(false);
  } catch (const std::runtime_error& e) {
    CHECK(std::string(e.what()) == "told");
  }
  wait_by_addresses();
  notify_at_ends();
  replace_a_shared_pointer();
  std::printf("cxx: %d wrong\n", wrong.load());
  return wrong != 0;
}
