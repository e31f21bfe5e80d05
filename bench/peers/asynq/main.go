// asynq on Redis. It has no batches, and its workers look for jobs again and
// again: the pause between two looks is made as short as it is useful.
package main

import (
	"context"
	"time"

	"github.com/hibiken/asynq"

	"harness"
)

const look = 10 * time.Millisecond // 1 s by default

type peer struct {
	redis  asynq.RedisClientOpt
	client *asynq.Client
}

type producer struct {
	client *asynq.Client
	queue  string
}

func (p peer) NewProducer(queue string) (harness.Producer, error) {
	return producer{p.client, queue}, nil
}

func (p producer) Put(jobs [][]byte) error {
	if len(jobs) > 1 {
		return harness.ErrNoBatch
	}
	_, err := p.client.Enqueue(asynq.NewTask("bench", jobs[0]),
		asynq.Queue(p.queue))
	return err
}

func (p peer) Work(queue string, workers, _ int, done func(n int)) error {
	s := asynq.NewServer(p.redis, asynq.Config{
		Concurrency:       workers,
		Queues:            map[string]int{queue: 1},
		LogLevel:          asynq.FatalLevel,
		TaskCheckInterval: look,
	})
	return s.Start(asynq.HandlerFunc(
		func(context.Context, *asynq.Task) error {
			done(1)
			return nil
		}))
}

func main() {
	harness.Main(func(address string) (harness.Peer, error) {
		redis := asynq.RedisClientOpt{Addr: address, PoolSize: 256}
		return peer{redis, asynq.NewClient(redis)}, nil
	})
}
