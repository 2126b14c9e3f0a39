// Kernels that meet the host at flags in memory both see. Words, in order: the device's
// flag, the host's flag, what became of the meeting, what the device hands
// over, what the host hands over.
//
// Every spin ends after a given number of reads, or when the host's flag is RELEASED.

#define DEVICE_FLAG 0
#define HOST_FLAG 1
#define STATUS 2
#define DEVICE_DATA 3
#define HOST_DATA 4

#define MET 1
#define SPUN_OUT 2
#define GIVEN_UP 3
#define STALE 4
#define RELEASED 0xffffffffu
// Turns a round's number into what is handed over in it.
#define DATA_OF_ROUND(round) ((round) * 2654435761u)

// With SCOPE (the memory scope of C11's atomics that both sides share) flags are atomics;
// without, volatile words.
#ifdef SCOPE
typedef atomic_uint Flag;
#define STORE(flag, value) atomic_store_explicit(flag, value, memory_order_seq_cst, SCOPE)
#define LOAD(flag) atomic_load_explicit(flag, memory_order_seq_cst, SCOPE)
#else
typedef uint Flag;
#define STORE(flag, value)            \
  do {                                \
    mem_fence(CLK_GLOBAL_MEM_FENCE);  \
    *(flag) = (value);                \
    mem_fence(CLK_GLOBAL_MEM_FENCE);  \
  } while (0)
#define LOAD(flag) (*(flag))
#endif

// Meets the host in `round`: hands over its data, then waits for the host's.
uint meet_host(volatile __global Flag *words, uint round, uint spins) {
  STORE(words + DEVICE_DATA, DATA_OF_ROUND(round));
  STORE(words + DEVICE_FLAG, round);
  for (uint spin = 0; spin < spins; spin++) {
    const uint seen = LOAD(words + HOST_FLAG);
    if (seen == RELEASED) return GIVEN_UP;
    if (seen == round) return LOAD(words + HOST_DATA) == DATA_OF_ROUND(round) ? MET : STALE;
  }
  return SPUN_OUT;
}

// One meeting after whatever ran before in the queue. Of several groups only the one
// that finishes last meets the host: one that spins while others are not yet scheduled
// could keep them from ever being so.
__kernel void meet(volatile __global Flag *words, volatile __global uint *groups_done, uint round,
                   uint spins) {
  const uint groups = get_num_groups(0);
  if (get_local_id(0) == 0 && atomic_inc(groups_done) == groups - 1) {
    *groups_done = 0;
    STORE(words + STATUS, meet_host(words, round, spins));
  }
}

// As many meetings as `rounds`, one after the other.
__kernel void ping_pong(volatile __global Flag *words, uint rounds, uint spins) {
  uint status = MET;
  for (uint round = 1; round <= rounds && status == MET; round++) status = meet_host(words, round, spins);
  STORE(words + STATUS, status);
}

// Tells the host of `announced`, then keeps the queue until the host has signalled
// `awaited`; either is left out where it is 0. Numbers of both only grow. One thread.
__kernel void hand_over(volatile __global Flag *words, uint announced, uint awaited, uint spins) {
  if (announced != 0) STORE(words + DEVICE_FLAG, announced);
  if (awaited == 0) return;
  for (uint spin = 0; spin < spins; spin++) {
    const uint seen = LOAD(words + HOST_FLAG);
    if (seen == RELEASED) {
      STORE(words + STATUS, GIVEN_UP);
      return;
    }
    if (seen >= awaited) return;
  }
  STORE(words + STATUS, SPUN_OUT);
}

// Something that takes its time.
__kernel void busy(__global float *result, uint steps) {
  float value = get_global_id(0);
  for (uint step = 0; step < steps; step++) value = value * 0.9990234375f + 1.0f;
  result[get_global_id(0)] = value;
}
