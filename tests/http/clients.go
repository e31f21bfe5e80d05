// Calls of connect-go and grpc-go, for test_stream_clients.py: a job's life by
// unary calls, an error, and a stream. Prints "ok" for each protocol.
package main

import (
	"context"
	"crypto/tls"
	"fmt"
	"log"
	"net"
	"net/http"
	"os"
	"time"

	"connectrpc.com/connect"
	"golang.org/x/net/http2"
	"google.golang.org/grpc"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	pb "client/corvov1"
	"client/corvov1/corvov1connect"
)

type stream interface {
	Send(*pb.LifecycleStreamRequest) error
	Receive() (*pb.LifecycleStreamResponse, error)
}

func check(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

func must(ok bool, what interface{}) {
	if !ok {
		log.Fatal(what)
	}
}

// One frame adds jobs, one fetches them, one acks them.
func useStream(s stream, queue string) {
	check(s.Send(&pb.LifecycleStreamRequest{RequestId: 1,
		Enqueues: []*pb.LifecycleEnqueueItem{{Queue: queue}, {Queue: queue}}}))
	a, err := s.Receive()
	check(err)
	must(len(a.EnqueuedJobIds) == 2, a)
	check(s.Send(&pb.LifecycleStreamRequest{RequestId: 2,
		Queues: []string{queue}, FetchCount: 5, WaitMs: 20000}))
	a, err = s.Receive()
	check(err)
	must(a.RequestId == 2 && len(a.Jobs) == 2, a)
	var acks []*pb.AckBatchItem
	for _, j := range a.Jobs {
		acks = append(acks, &pb.AckBatchItem{JobId: j.JobId,
			LeaseToken: &j.LeaseToken})
	}
	check(s.Send(&pb.LifecycleStreamRequest{RequestId: 3, Acks: acks}))
	a, err = s.Receive()
	check(err)
	must(a.Acked == 2, a)
}

type connectStream struct {
	*connect.BidiStreamForClient[pb.LifecycleStreamRequest,
		pb.LifecycleStreamResponse]
}

func useConnect(ctx context.Context, address, queue string,
	opts ...connect.ClientOption) {
	h2c := &http.Client{Transport: &http2.Transport{AllowHTTP: true,
		DialTLSContext: func(ctx context.Context, network, addr string,
			_ *tls.Config) (net.Conn, error) {
			return net.Dial(network, addr)
		}}}
	c := corvov1connect.NewWorkerServiceClient(h2c, "http://"+address, opts...)
	made, err := c.Enqueue(ctx, connect.NewRequest(&pb.EnqueueRequest{
		Queue: queue, PayloadJson: `{"n": 1}`}))
	check(err)
	wait := int64(0)
	job, err := c.Fetch(ctx, connect.NewRequest(&pb.FetchRequest{
		Queues: []string{queue}, WaitMs: &wait}))
	check(err)
	must(job.Msg.JobId == made.Msg.JobId, job.Msg)
	_, err = c.Ack(ctx, connect.NewRequest(&pb.AckRequest{
		JobId: job.Msg.JobId, LeaseToken: &job.Msg.LeaseToken}))
	check(err)
	_, err = c.Ack(ctx, connect.NewRequest(&pb.AckRequest{JobId: "none"}))
	must(connect.CodeOf(err) == connect.CodeNotFound, err)
	s := c.StreamLifecycle(ctx)
	useStream(connectStream{s}, queue)
	check(s.CloseRequest())
	_, err = s.Receive()
	must(err != nil && connect.CodeOf(err) != connect.CodeInternal, err)
	watch, cancel := context.WithCancel(ctx)
	events, err := c.Subscribe(watch, connect.NewRequest(&pb.SubscribeRequest{
		Queues: []string{queue}, LastEventId: 1}))
	check(err)
	must(events.Receive() && events.Msg().Queue == queue, events.Err())
	cancel() // it would go on for ever
	fmt.Println("ok")
}

type grpcStream struct {
	pb.WorkerService_StreamLifecycleClient
}

func (s grpcStream) Receive() (*pb.LifecycleStreamResponse, error) {
	return s.Recv()
}

func useGrpc(ctx context.Context, address, queue string) {
	conn, err := grpc.Dial(address,
		grpc.WithTransportCredentials(insecure.NewCredentials()))
	check(err)
	c := pb.NewWorkerServiceClient(conn)
	_, err = c.Enqueue(ctx, &pb.EnqueueRequest{})
	must(status.Code(err) == codes.InvalidArgument, err)
	must(len(status.Convert(err).Details()) > 0, err)
	s, err := c.StreamLifecycle(ctx)
	check(err)
	useStream(grpcStream{s}, queue)
	check(s.CloseSend())
	_, err = s.Recv()
	must(err != nil && err.Error() == "EOF", err)
	short, cancel := context.WithTimeout(ctx, 2*time.Second)
	defer cancel()
	job, err := c.Fetch(short, &pb.FetchRequest{Queues: []string{queue}})
	check(err)
	must(!job.Found, job)
	fmt.Println("ok")
}

func main() {
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute)
	defer cancel()
	address := os.Args[1]
	useConnect(ctx, address, "connect")
	useConnect(ctx, address, "connect-json", connect.WithProtoJSON())
	useConnect(ctx, address, "connect-gzip", connect.WithSendGzip())
	useConnect(ctx, address, "connect-grpc", connect.WithGRPC())
	useConnect(ctx, address, "connect-web", connect.WithGRPCWeb())
	useGrpc(ctx, address, "grpc")
}
