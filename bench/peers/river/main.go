// River on PostgreSQL. The pause between two looks for jobs is the shortest it
// allows; it is notified of new ones besides.
package main

import (
	"context"
	"encoding/json"
	"log/slog"
	"os"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgxpool"
	"github.com/riverqueue/river"
	"github.com/riverqueue/river/riverdriver/riverpgxv5"
	"github.com/riverqueue/river/rivermigrate"

	"harness"
)

type args struct {
	Text string `json:"text"`
}

func (args) Kind() string { return "bench" }

type worker struct {
	river.WorkerDefaults[args]
	done func(n int)
}

func (w *worker) Work(context.Context, *river.Job[args]) error {
	w.done(1)
	return nil
}

type peer struct{ pool *pgxpool.Pool }

type producer struct {
	client *river.Client[pgx.Tx]
	queue  string
}

func (p peer) NewProducer(queue string) (harness.Producer, error) {
	c, err := river.NewClient(riverpgxv5.New(p.pool), &river.Config{})
	return producer{c, queue}, err
}

func (p producer) Put(jobs [][]byte) error {
	ctx := context.Background()
	options := &river.InsertOpts{Queue: p.queue}
	all := make([]river.InsertManyParams, len(jobs))
	for i, job := range jobs {
		var a args
		if err := json.Unmarshal(job, &a); err != nil {
			return err
		}
		all[i] = river.InsertManyParams{Args: a, InsertOpts: options}
	}
	if len(all) == 1 {
		_, err := p.client.Insert(ctx, all[0].Args, options)
		return err
	}
	_, err := p.client.InsertManyFast(ctx, all)
	return err
}

func (p peer) Work(queue string, workers, batch int, done func(n int)) error {
	known := river.NewWorkers()
	river.AddWorker(known, &worker{done: done})
	c, err := river.NewClient(riverpgxv5.New(p.pool), &river.Config{
		FetchCooldown:     time.Millisecond,
		FetchPollInterval: 10 * time.Millisecond,
		Logger: slog.New(slog.NewTextHandler(os.Stderr,
			&slog.HandlerOptions{Level: slog.LevelError})),
		Queues: map[string]river.QueueConfig{
			queue: {MaxWorkers: workers * batch}},
		Workers: known,
	})
	if err != nil {
		return err
	}
	return c.Start(context.Background())
}

func open(address string) (harness.Peer, error) {
	ctx := context.Background()
	config, err := pgxpool.ParseConfig(address)
	if err != nil {
		return nil, err
	}
	config.MaxConns = 150
	pool, err := pgxpool.NewWithConfig(ctx, config)
	if err != nil {
		return nil, err
	}
	migrator, err := rivermigrate.New(riverpgxv5.New(pool), nil)
	if err != nil {
		return nil, err
	}
	_, err = migrator.Migrate(ctx, rivermigrate.DirectionUp, nil)
	return peer{pool}, err
}

func main() { harness.Main(open) }
