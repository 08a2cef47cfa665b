// Cancellation of threads: pthread_cancel(). A request is a flag in memory that all clusters share, and what was written before
// it is seen when it is. A thread looks at it in the calls that POSIX names cancellation points, and ends there as by pthread_exit().
//
//   the thread waits for an object     it has written down which condition of the machine wakes it: that is signalled, and it looks again
//   it waits in the system, live       a signal interrupts the call, again until the thread has left it; in another cluster the thread
//                                      sends it that starts threads there
//   it sleeps or waits in simulation   it looks every millisecond of virtual time
//   it computes                        it goes on until its next cancellation point; or, live, if it is to end at once
//                                      (PTHREAD_CANCEL_ASYNCHRONOUS), the signal's handler sends it there
//
// A program that does not call pthread_cancel() does none of this.
#pragma once

#include "dsm/pthreads/machine.h"

namespace braid::dsm::pthreads {

// The program calls pthread_cancel() (cancels.cpp is linked).
bool uses_cancellation();
// Whether a request may end the calling thread now. On the program's stack, where a call begins: what is called on the private one is
// told, and gives up by ECANCELED.
bool can_be_cancelled();
// Somebody has cancelled the calling thread, as far as its cluster knows. It can be cancelled.
bool is_cancelled();
// The same, when nothing that the thread has done before tells its cluster.
bool finds_itself_cancelled();
// The thread that was cancelled ends, by its cleanup handlers. On the program's stack.
[[noreturn]] void end_cancelled();
// The same if it is to end at once, wherever it is (PTHREAD_CANCEL_ASYNCHRONOUS).
void end_if_at_once();
// From now on it is not cancelled: it ends.
void begin_to_end();
// pthread_testcancel().
void test_cancellation();

// What the calling thread waits for next: `condition` with `lock`, which it has. Then it looks whether it is cancelled, each time before
// it waits.
void tell_wait(unsigned lock, unsigned condition);

// Of the thread's record, with kThreadsLock.
void forget_cancellation(const Thread& thread);
// In its cluster, in a live run: those that were cancelled while they wait in the system leave the call.
void interrupt_cancelled(const std::bitset<kNodes>& nodes);

// A call that waits in the system: between these two a request interrupts it. The first ends a thread that is cancelled already. Of
// threads that can be.
void begin_point();
void end_point();

// The same where another thread makes the call, in another cluster, for the calling one, which is at such a point. `helper` is created for
// it, with kThreadsLock; begin_point_for() is called by it. False: the caller is cancelled, and nothing is done; otherwise end_point_for().
void tell_helper(const Thread& caller, const Thread& helper);
bool begin_point_for(const Thread& caller);
void end_point_for(const Thread& caller);
// Meanwhile the calling thread's own wait is another. False: it is at no such point.
bool pause_point();
void resume_point();

// Carries out a cancellation point: call() returns -1 where it was interrupted, or was not made.
template <class Call>
auto at_point(Call&& call) {
  if (!can_be_cancelled()) return call();
  begin_point();
  const auto result = call();
  end_point();
  if (result == -1 && is_cancelled()) end_cancelled();
  return result;
}

// The same of a read of a stream, which has come to nothing where failed(result). The stream has no error after it.
void forget_interrupt(std::FILE* stream);
template <class Call, class Failed>
auto at_read(std::FILE* stream, Call&& call, Failed&& failed) {
  if (!can_be_cancelled()) return call();
  begin_point();
  const auto result = call();
  end_point();
  if (!failed(result) || !is_cancelled()) return result;
  forget_interrupt(stream);
  end_cancelled();
}

}  // namespace braid::dsm::pthreads
