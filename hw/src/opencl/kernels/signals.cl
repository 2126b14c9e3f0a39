// Kernels that synchronise with the host through flags. The numbers of both sides only grow, so
// each implies all before it.
//
// Every spin ends after a given number of reads, or when the host's flag is RELEASED.

#define SPUN_OUT 1
#define GIVEN_UP 2
#define STALE 3
#define RELEASED 0xffffffffu

// Waits until the host has signalled `awaited`, with its data; stores any failure in the status
// word.
bool await_host(volatile __global Flag *words, uint awaited, uint spins) {
  for (uint spin = 0; spin < spins; spin++) {
    const uint seen = LOAD_FLAG(words + HOST_FLAG);
    if (seen < awaited) continue;
    if (seen != RELEASED && LOAD_FLAG(words + HOST_DATA) >= awaited) return true;
    STORE_FLAG(words + STATUS, seen == RELEASED ? GIVEN_UP : STALE);
    return false;
  }
  STORE_FLAG(words + STATUS, SPUN_OUT);
  return false;
}

// Announces `announced` to the host, then holds the queue until the host has signalled `awaited`;
// each is skipped if 0. Runs as a single thread.
__kernel void hand_over(volatile __global Flag *words, uint announced, uint awaited, uint spins) {
  if (announced != 0) NOTIFY_HOST(words, announced);
  if (awaited != 0) await_host(words, awaited, spins);
}

// Makes `rounds` round trips, one after the other.
__kernel void ping_pong(volatile __global Flag *words, uint rounds, uint spins) {
  bool has_met = true;
  for (uint round = 1; round <= rounds && has_met; round++) {
    NOTIFY_HOST(words, round);
    has_met = await_host(words, round, spins);
  }
}
