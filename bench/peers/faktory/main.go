// Faktory. Batches go in by PushBulk; a worker fetches and acknowledges one job
// after the other on a connection of its own, as its Go worker does.
package main

import (
	"encoding/json"
	"fmt"
	"os"

	faktory "github.com/contribsys/faktory/client"

	"harness"
)

type peer struct{ address string }

type producer struct {
	client *faktory.Client
	queue  string
}

func (p peer) open() (*faktory.Client, error) {
	s := faktory.DefaultServer()
	s.Network = "tcp"
	s.Address = p.address
	return s.Open()
}

func (p peer) NewProducer(queue string) (harness.Producer, error) {
	c, err := p.open()
	return producer{c, queue}, err
}

func (p producer) Put(jobs [][]byte) error {
	made := make([]*faktory.Job, len(jobs))
	for i, job := range jobs {
		made[i] = faktory.NewJob("bench", json.RawMessage(job))
		made[i].Queue = p.queue
	}
	if len(made) == 1 {
		return p.client.Push(made[0])
	}
	refused, err := p.client.PushBulk(made)
	if err == nil && len(refused) > 0 {
		err = fmt.Errorf("%d of %d jobs were refused", len(refused),
			len(made))
	}
	return err
}

func work(c *faktory.Client, queue string, done func(n int)) error {
	for {
		job, err := c.Fetch(queue)
		if err != nil {
			return err
		}
		if job == nil { // it waited for two seconds
			continue
		}
		done(1)
		if err := c.Ack(job.Jid); err != nil {
			return err
		}
	}
}

// Only who says that it is a worker may fetch.
func (p peer) Work(queue string, workers, batch int, done func(n int)) error {
	faktory.RandomProcessWid = fmt.Sprintf("bench-%d", os.Getpid())
	for i := 0; i < workers; i++ {
		c, err := p.open()
		if err != nil {
			return err
		}
		if _, err := c.Beat(); err != nil {
			return err
		}
		go func() { panic(work(c, queue, done)) }()
	}
	return nil
}

func main() {
	harness.Main(func(address string) (harness.Peer, error) {
		return peer{address}, nil
	})
}
