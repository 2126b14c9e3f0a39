// Kernels that meet the host at flags.
//
// Every spin ends after a given number of reads, or when the host's flag is RELEASED.

#define MET 1
#define SPUN_OUT 2
#define GIVEN_UP 3
#define STALE 4
#define RELEASED 0xffffffffu

// Waits for the host in `round`.
uint await_host(volatile __global Flag *words, uint round, uint spins) {
  for (uint spin = 0; spin < spins; spin++) {
    const uint seen = LOAD_FLAG(words + HOST_FLAG);
    if (seen == RELEASED) return GIVEN_UP;
    if (seen == round) return LOAD_FLAG(words + HOST_DATA) == DATA_OF_ROUND(round) ? MET : STALE;
  }
  return SPUN_OUT;
}

// Meets the host in `round`: hands over its data, then waits for the host's.
uint meet_host(volatile __global Flag *words, uint round, uint spins) {
  STORE_FLAG(words + DEVICE_DATA, DATA_OF_ROUND(round));
  STORE_FLAG(words + DEVICE_FLAG, round);
  return await_host(words, round, spins);
}

// One meeting after whatever ran before in the queue. Of several groups only the one
// that finishes last meets the host: one that spins while others are not yet scheduled
// could keep them from ever being so. Unless it `tells` the host of itself, what ran
// before did.
__kernel void meet(volatile __global Flag *words, volatile __global Flag *groups_done, uint tells, uint round,
                   uint spins) {
  const uint groups = get_num_groups(0);
  if (get_local_id(0) == 0 && COUNT_FLAG(groups_done) == groups - 1) {
    STORE_FLAG(groups_done, 0u);
    const uint status = tells ? meet_host(words, round, spins) : await_host(words, round, spins);
    STORE_FLAG(words + STATUS, status);
  }
}

// As many meetings as `rounds`, one after the other.
__kernel void ping_pong(volatile __global Flag *words, uint rounds, uint spins) {
  uint status = MET;
  for (uint round = 1; round <= rounds && status == MET; round++) status = meet_host(words, round, spins);
  STORE_FLAG(words + STATUS, status);
}

// Tells the host of `announced`, then keeps the queue until the host has signalled
// `awaited`; either is left out where it is 0. Numbers of both only grow. One thread.
__kernel void hand_over(volatile __global Flag *words, uint announced, uint awaited, uint spins) {
  if (announced != 0) STORE_FLAG(words + DEVICE_FLAG, announced);
  if (awaited == 0) return;
  for (uint spin = 0; spin < spins; spin++) {
    const uint seen = LOAD_FLAG(words + HOST_FLAG);
    if (seen == RELEASED) {
      STORE_FLAG(words + STATUS, GIVEN_UP);
      return;
    }
    if (seen >= awaited) return;
  }
  STORE_FLAG(words + STATUS, SPUN_OUT);
}
