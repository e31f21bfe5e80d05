// Package harness measures a job queue through the client its users have. A
// program gives it a Peer and prints lines "name value", as bench/load does.
package harness

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"sort"
	"strings"
	"sync"
	"sync/atomic"
	"time"
)

// The same as bench/peers.py asks of Corvo.
const (
	enqueuers      = 128
	producers      = 64
	workers        = 64
	batch          = 100
	batchProducers = 4
	batchWorkers   = 4
	backlog        = 1000
	batchBacklog   = 5000
	warmUp         = time.Second // not counted: connections, caches, JIT
	wakeGap        = 2 * time.Millisecond
	wakePatience   = 10 * time.Second
)

// ErrNoBatch says that a peer has no way to put in several jobs at once.
var ErrNoBatch = errors.New("no batches")

// A Producer is used by one goroutine.
type Producer interface {
	// Put returns when the server has said that it has all of them.
	Put(jobs [][]byte) error
}

// A Peer is a job queue.
type Peer interface {
	NewProducer(queue string) (Producer, error)
	// Work starts so many workers, which take up to batch jobs at a time.
	// done is told how many jobs a worker has; these are completed then.
	Work(queue string, workers, batch int, done func(n int)) error
}

func fail(err error) {
	if err == nil {
		return
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

// gate holds producers back while too many jobs are not done.
type gate struct {
	mu     sync.Mutex
	moved  *sync.Cond
	ahead  int
	most   int
	closed bool
}

func newGate(most int) *gate {
	g := &gate{most: most}
	g.moved = sync.NewCond(&g.mu)
	return g
}

func (g *gate) enter(n int) bool {
	g.mu.Lock()
	defer g.mu.Unlock()
	for g.ahead >= g.most && !g.closed {
		g.moved.Wait()
	}
	g.ahead += n
	return !g.closed
}

func (g *gate) leave(n int) {
	g.mu.Lock()
	g.ahead -= n
	g.mu.Unlock()
	g.moved.Broadcast()
}

func (g *gate) close() {
	g.mu.Lock()
	g.closed = true
	g.mu.Unlock()
	g.moved.Broadcast()
}

type measurement struct {
	peer     Peer
	queue    string
	job      []byte
	seconds  time.Duration
	count    int
	counting atomic.Bool
	done     atomic.Int64 // while counting
}

func (m *measurement) add(n int) {
	if m.counting.Load() {
		m.done.Add(int64(n))
	}
}

func (m *measurement) newProducers(n int) []Producer {
	made := make([]Producer, n)
	for i := range made {
		p, err := m.peer.NewProducer(m.queue)
		fail(err)
		made[i] = p
	}
	return made
}

func (m *measurement) jobs(n int) [][]byte {
	jobs := make([][]byte, n)
	for i := range jobs {
		jobs[i] = m.job
	}
	return jobs
}

// produce puts jobs in on all producers until the time is over; counting is on
// after the warm-up.
func (m *measurement) produce(all []Producer, n int, g *gate,
	put func(n int)) {
	var wg sync.WaitGroup
	end := time.Now().Add(warmUp + m.seconds)
	time.AfterFunc(warmUp, func() { m.counting.Store(true) })
	time.AfterFunc(warmUp+m.seconds, func() {
		m.counting.Store(false)
		if g != nil {
			g.close()
		}
	})
	for _, p := range all {
		wg.Add(1)
		go func(p Producer) {
			defer wg.Done()
			jobs := m.jobs(n)
			for time.Now().Before(end) && (g == nil || g.enter(n)) {
				fail(p.Put(jobs))
				put(n)
			}
		}(p)
	}
	wg.Wait()
}

func (m *measurement) rate(name string) {
	fmt.Printf("%s %.0f\n", name,
		float64(m.done.Load())/m.seconds.Seconds())
}

func (m *measurement) enqueue() {
	m.produce(m.newProducers(enqueuers), 1, nil, m.add)
	m.rate("enqueue_per_s")
}

func (m *measurement) lives(name string, producers, workers, batch,
	backlog int) {
	g := newGate(backlog)
	all := m.newProducers(producers)
	if batch > 1 {
		// one that cannot is told now, before the clock runs
		err := all[0].Put(m.jobs(batch))
		if errors.Is(err, ErrNoBatch) {
			return
		}
		fail(err)
		g.enter(batch)
	}
	fail(m.peer.Work(m.queue, workers, batch, func(n int) {
		m.add(n)
		g.leave(n)
	}))
	m.produce(all, batch, g, func(int) {})
	m.rate(name)
}

// wake times one job at a time on its way to a worker that waits for it.
func (m *measurement) wake() {
	var took []float64
	at := make(chan time.Time, 16)
	p := m.newProducers(1)[0]
	fail(m.peer.Work(m.queue, 1, 1, func(int) { at <- time.Now() }))
	end := time.Now().Add(4 * m.seconds)
	for i := 0; i < m.count && time.Now().Before(end); i++ {
		time.Sleep(wakeGap)
		start := time.Now()
		fail(p.Put(m.jobs(1)))
		select {
		case got := <-at:
			if i > 0 { // the first one finds a worker that starts
				took = append(took,
					float64(got.Sub(start).Nanoseconds())/1e3)
			}
		case <-time.After(wakePatience):
			fail(errors.New("a job did not reach its worker"))
		}
	}
	sort.Float64s(took)
	fmt.Printf("wake_count %d\n", len(took))
	if len(took) == 0 {
		return
	}
	fmt.Printf("wake_p50_us %.1f\n", took[len(took)/2])
	fmt.Printf("wake_p90_us %.1f\n", took[len(took)*9/10])
}

// Main runs the measurement that the command line names.
func Main(open func(address string) (Peer, error)) {
	address := flag.String("address", "", "of the server")
	mode := flag.String("mode", "", "enqueue, lifecycle, batch or wake")
	seconds := flag.Float64("seconds", 3, "how long to measure")
	payload := flag.Int("payload", 100, "bytes of a job")
	count := flag.Int("count", 500, "jobs of wake")
	queue := flag.String("queue", "bench", "its name")
	flag.Parse()
	p, err := open(*address)
	fail(err)
	m := &measurement{
		peer:    p,
		queue:   *queue,
		job:     []byte(`{"text":"` + strings.Repeat("a", *payload-11) + `"}`),
		seconds: time.Duration(*seconds * float64(time.Second)),
		count:   *count,
	}
	switch *mode {
	case "enqueue":
		m.enqueue()
	case "lifecycle":
		m.lives("lifecycles_per_s", producers, workers, 1, backlog)
	case "batch":
		m.lives("batch_lifecycles_per_s", batchProducers, batchWorkers,
			batch, batchBacklog)
	case "wake":
		m.wake()
	default:
		fail(fmt.Errorf("no such mode: %q", *mode))
	}
	os.Exit(0) // workers are still there
}
