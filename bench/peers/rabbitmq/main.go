// RabbitMQ with a quorum queue. Confirmations are waited for; a batch is
// published and then confirmed, and acknowledged at once by its last job.
package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"harness"
)

const (
	wait     = 10 * time.Second
	prefetch = 16 // of a worker that takes jobs one by one
)

type peer struct{ address string }

type producer struct {
	ch    *amqp.Channel
	queue string
}

func (p peer) open(queue string) (*amqp.Channel, error) {
	conn, err := amqp.Dial(p.address)
	if err != nil {
		return nil, err
	}
	ch, err := conn.Channel()
	if err != nil {
		return nil, err
	}
	_, err = ch.QueueDeclare(queue, true, false, false, false,
		amqp.Table{"x-queue-type": "quorum"})
	return ch, err
}

func (p peer) NewProducer(queue string) (harness.Producer, error) {
	ch, err := p.open(queue)
	if err == nil {
		err = ch.Confirm(false)
	}
	return producer{ch, queue}, err
}

func (p producer) Put(jobs [][]byte) error {
	ctx, cancel := context.WithTimeout(context.Background(), wait)
	defer cancel()
	sent := make([]*amqp.DeferredConfirmation, len(jobs))
	for i, job := range jobs {
		c, err := p.ch.PublishWithDeferredConfirmWithContext(ctx, "",
			p.queue, true, false, amqp.Publishing{
				DeliveryMode: amqp.Persistent,
				ContentType:  "application/json",
				Body:         job,
			})
		if err != nil {
			return err
		}
		sent[i] = c
	}
	for _, c := range sent {
		ok, err := c.WaitContext(ctx)
		if err != nil {
			return err
		}
		if !ok {
			return fmt.Errorf("a job was refused")
		}
	}
	return nil
}

// What has come already is taken with the first one, up to a batch.
func work(jobs <-chan amqp.Delivery, batch int, done func(n int)) error {
	for first := range jobs {
		last, n := first, 1
		for more := true; more && n < batch; {
			select {
			case d, ok := <-jobs:
				more = ok
				if ok {
					last = d
					n++
				}
			default:
				more = false
			}
		}
		done(n)
		if err := last.Ack(n > 1); err != nil {
			return err
		}
	}
	return errors.New("the channel was closed")
}

func (p peer) Work(queue string, workers, batch int, done func(n int)) error {
	for i := 0; i < workers; i++ {
		ch, err := p.open(queue)
		if err != nil {
			return err
		}
		if err := ch.Qos(max(batch, prefetch), 0, false); err != nil {
			return err
		}
		jobs, err := ch.Consume(queue, "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		go func() { panic(work(jobs, batch, done)) }()
	}
	return nil
}

func main() {
	harness.Main(func(address string) (harness.Peer, error) {
		return peer{"amqp://guest:guest@" + address + "/"}, nil
	})
}
