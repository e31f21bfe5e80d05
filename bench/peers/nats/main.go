// NATS JetStream: a stream on disk from which what is acknowledged goes away,
// and a pull consumer. Acknowledgements are waited for.
package main

import (
	"errors"
	"fmt"
	"time"

	"github.com/nats-io/nats.go"

	"harness"
)

const wait = 5 * time.Second

type peer struct{ address string }

type producer struct {
	js    nats.JetStreamContext
	queue string
}

func (p peer) open(queue string) (nats.JetStreamContext, error) {
	nc, err := nats.Connect(p.address)
	if err != nil {
		return nil, err
	}
	js, err := nc.JetStream(nats.PublishAsyncMaxPending(1000))
	if err != nil {
		return nil, err
	}
	_, err = js.AddStream(&nats.StreamConfig{
		Name:      queue,
		Subjects:  []string{queue},
		Storage:   nats.FileStorage,
		Retention: nats.WorkQueuePolicy,
	})
	if errors.Is(err, nats.ErrStreamNameAlreadyInUse) {
		err = nil
	}
	return js, err
}

func (p peer) NewProducer(queue string) (harness.Producer, error) {
	js, err := p.open(queue)
	return producer{js, queue}, err
}

func (p producer) Put(jobs [][]byte) error {
	if len(jobs) == 1 {
		_, err := p.js.Publish(p.queue, jobs[0])
		return err
	}
	sent := make([]nats.PubAckFuture, len(jobs))
	for i, job := range jobs {
		f, err := p.js.PublishAsync(p.queue, job)
		if err != nil {
			return err
		}
		sent[i] = f
	}
	for _, f := range sent {
		select {
		case <-f.Ok():
		case err := <-f.Err():
			return err
		case <-time.After(wait):
			return fmt.Errorf("a job was not acknowledged")
		}
	}
	return nil
}

func work(sub *nats.Subscription, batch int, done func(n int)) error {
	for {
		got, err := sub.Fetch(batch, nats.MaxWait(wait))
		if errors.Is(err, nats.ErrTimeout) {
			continue
		}
		if err != nil {
			return err
		}
		done(len(got))
		for i, m := range got {
			ack := m.Ack
			if i == len(got)-1 {
				ack = m.AckSync
			}
			if err := ack(); err != nil {
				return err
			}
		}
	}
}

func (p peer) Work(queue string, workers, batch int, done func(n int)) error {
	for i := 0; i < workers; i++ {
		js, err := p.open(queue)
		if err != nil {
			return err
		}
		sub, err := js.PullSubscribe(queue, "workers",
			nats.BindStream(queue), nats.MaxAckPending(20000))
		if err != nil {
			return err
		}
		go func() { panic(work(sub, batch, done)) }()
	}
	return nil
}

func main() {
	harness.Main(func(address string) (harness.Peer, error) {
		return peer{"nats://" + address}, nil
	})
}
