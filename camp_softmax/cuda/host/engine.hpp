// What the two halves of the engine share: engine.cpp runs threads and makes them wait, checker.cpp knows what happened
// before what.
//
// A launch runs cluster by cluster (a block without one is a cluster of one), each to its end. Of a cluster, all threads
// live at the same time, as fibers: each has a stack of its own, and one runs until it has to wait.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#define EXPORT __attribute__((visibility("default")))

namespace host {

// --- what Python passes, as ctypes.Structure ---------------------------------------------------------------------

struct Buffer {  // global memory that the kernel was given
    char* begin;
    size_t bytes;
    int element;   // bytes
    int writable;  // the parameter is no pointer to const
    const char* name;
};

struct Variable {  // of shared memory, in the order of their offsets
    size_t offset, bytes;
    int element;  // bytes; 0: not known
    const char* name;
};

struct Launch {
    unsigned grid[3], block[3], cluster;  // all in blocks; `cluster` of them one after the other in x
    unsigned seed;                        // 0: threads in the order of their numbers
    double seconds;                       // after which it is stopped; 0: never
    size_t shared;                        // bytes of a block's shared memory
    int buffers, variables;
    Buffer* buffer;
    Variable* variable;
    char message[2000];  // the finding, if any; @{1f} stands for the line of that place in the code
};

// --- vector clocks -----------------------------------------------------------------------------------------------

// What a thread knows of all others: for each component (a thread, or a copy on its way) the time up to which what it
// did happened before now. Handles share one array until one of them changes it: after a barrier all threads of a block
// know the same. A handle without an array knows nothing.
class VectorClock {
public:
    VectorClock() = default;
    VectorClock(const VectorClock& other) : array(other.array) {
        if (array) ++array->references;
    }
    VectorClock(VectorClock&& other) noexcept : array(other.array) { other.array = nullptr; }
    VectorClock& operator=(VectorClock other) noexcept {
        std::swap(array, other.array);
        return *this;
    }
    ~VectorClock() { release(); }

    uint32_t operator[](size_t component) const { return array ? array->time[component] : 0; }
    void set(size_t component, uint32_t time);
    void join(const VectorClock& other);  // the later time of each component
    bool same(const VectorClock& other) const { return array == other.array; }
    size_t hash() const { return reinterpret_cast<size_t>(array) / 64; }

    static void components(size_t n);  // how many there are from now on; no handle has an array

private:
    struct Array {
        size_t references;
        uint32_t time[1];  // as many as there are components
    };
    static Array* allocate();
    void own();
    void release();
    Array* array = nullptr;
};

// --- threads -----------------------------------------------------------------------------------------------------

struct Place {  // as in cuda.hpp
    const char* file;
    int line;
};

// Who reads and writes: a thread, or a copy that a thread has started.
struct Actor {
    uint32_t component = 0;  // of the vector clocks
    uint32_t clock = 1;      // its own time, which goes on with each release
    unsigned rank = 0;       // of its block in the cluster
    unsigned thread = 0;     // its number in the block
    bool bulk = false;       // copies past the order of ordinary loads and stores (the async proxy)
    VectorClock known;       // what happened before
};

struct Barrier;

struct Fiber : Actor {
    enum State { Ready, Waits, Done } state = Ready;
    void* stack_pointer = nullptr;
    char* stack = nullptr;
    unsigned index[3] = {};
    const char* waits_in = nullptr;
    Place place = {};  // where it waits
    uint32_t site = 0;  // where it was interrupted; 0: it waited
    // In a warp operation:
    int operation = -1, from = 0;
    unsigned mask = 0;
    uint64_t value = 0;
    // Of the cluster's barrier:
    unsigned arrivals = 0, waits = 0;
};

// An mbarrier. A phase ends when the arrivals and bytes that were announced for it have come.
struct Barrier {
    int expected = 0, pending = 0;
    long bytes = 0;
    unsigned phase = 0;
    uint32_t component = 0, clock = 0;  // who initialised it, and when
    VectorClock arriving, released;
    std::vector<Fiber*> waiting;
};

struct Block {
    unsigned index[3];
    std::vector<char> memory;
    char* shared;
    unsigned live, waiting;
    Place place;  // where the first of those waits
    unsigned first;
};

// A bulk copy or a remote store on its way.
struct Copy : Actor {
    char* to;
    const char* from;  // null: `value` is copied
    uint64_t value;
    unsigned bytes;
    Barrier* barrier;
    unsigned target;  // rank of the block that `to` is in
    uint32_t site;
};

struct State {
    Launch* launch;
    Fiber* fiber;  // the one that runs
    std::vector<Fiber> fibers;
    std::vector<Block> blocks;
    unsigned threads;            // of a block
    uint32_t serial;             // of this cluster, in all launches
    uint32_t first_serial;       // of this launch
    std::vector<unsigned> order;  // the clusters, as they run
    bool failed;
    long slice;  // memory accesses until somebody else may run
    char* stacks;  // of all fibers
    size_t stacks_bytes;
    char* module;  // where the kernel's code and constants are
    size_t module_bytes;
};
extern State now;

constexpr size_t STACK = 64 << 10;
constexpr size_t MARGIN = 4 << 10;  // before and behind a block's shared memory, where nothing else is
constexpr unsigned COPIES = 64;  // components for copies, in each block: more at once share one

// --- engine.cpp --------------------------------------------------------------------------------------------------

// Ends the launch with a finding. Called by a fiber it does not return; in the scheduler it does.
void fail(const char* format, ...) __attribute__((format(printf, 1, 2)));
void preempt(uint32_t site);
bool is_index(const void* p);  // threadIdx and the like: g++ knows that they are constants, clang reads them as memory
bool is_copy(uint32_t component);
std::string name(const Actor& actor);
std::string block_name(unsigned cluster, unsigned rank);

// --- checker.cpp -------------------------------------------------------------------------------------------------

// A place in the code: an offset in the module, or the number of a Place.
uint32_t site(Place place);
std::string text(uint32_t site);
inline std::string text(Place place) { return text(site(place)); }

void begin_launch();
void begin_cluster();
void end_launch();
bool access(Actor& actor, const void* p, unsigned bytes, bool write, bool atomic, uint32_t site);
void require_inside(const Actor& actor, const void* p, unsigned bytes, uint32_t site);  // without reading, so no race
void synchronize(Fiber** fibers, size_t n);              // all know what all knew
void release(Actor& actor, VectorClock& to);             // and its time goes on
void acquire(Actor& actor, const VectorClock& released);
void atomic_order(Actor& actor, const void* p);
void proxy_fence(Actor& actor);
bool fenced(uint32_t component, uint32_t clock);

}  // namespace host
