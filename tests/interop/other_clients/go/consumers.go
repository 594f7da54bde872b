package main

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/apache/rocketmq-client-go/v2"
	"github.com/apache/rocketmq-client-go/v2/consumer"
	"github.com/apache/rocketmq-client-go/v2/primitive"
)

var (
	pushes = map[string]*inbox{}
	pulls  = map[string]rocketmq.PullConsumer{}
)

// inbox keeps what a push consumer received and says what its listener answers.
type inbox struct {
	lock     sync.Mutex
	messages []answer
	fail     int
	orderly  bool
	replier  rocketmq.Producer
	reply    string
	news     chan struct{}
}

func (i *inbox) take(_ context.Context, messages ...*primitive.MessageExt) (consumer.ConsumeResult, error) {
	i.lock.Lock()
	defer i.lock.Unlock()
	for _, message := range messages {
		i.messages = append(i.messages, received(message))
		tell(i.news)
		if err := i.answer(message); err != nil {
			return consumer.ConsumeRetryLater, err
		}
	}
	if i.fail == 0 {
		return consumer.ConsumeSuccess, nil
	}
	i.fail--
	if i.orderly {
		return consumer.SuspendCurrentQueueAMoment, nil
	}
	return consumer.ConsumeRetryLater, nil
}

func (i *inbox) answer(message *primitive.MessageExt) error {
	if i.replier == nil || message.GetProperty(primitive.PropertyCorrelationID) == "" {
		return nil
	}
	reply, err := consumer.CreateReplyMessage(message, []byte(i.reply))
	if err != nil {
		return err
	}
	reply.Body = []byte(i.reply) // the client forgets it
	_, err = i.replier.SendSync(context.Background(), reply)
	return err
}

func received(m *primitive.MessageExt) answer {
	return answer{
		"topic": m.Topic, "body": string(m.Body), "tags": m.GetTags(), "keys": m.GetKeys(),
		"properties": m.GetProperties(), "msgId": m.MsgId, "offsetMsgId": m.OffsetMsgId, "queue": m.Queue.QueueId,
		"offset": m.QueueOffset, "reconsumed": m.ReconsumeTimes, "stored": m.StoreTimestamp, "born": m.BornTimestamp,
		"storeSize": m.StoreSize,
	}
}

func consumerOptions(r Request) []consumer.Option {
	options := []consumer.Option{
		consumer.WithNsResolver(resolver(r)), consumer.WithGroupName(r.Group), consumer.WithInstance(r.Instance),
		consumer.WithNamespace(r.Namespace),
		consumer.WithConsumeFromWhere(consumer.ConsumeFromFirstOffset), consumer.WithConsumerOrder(r.Kind == "orderly"),
	}
	if r.Kind == "broadcast" {
		options = append(options, consumer.WithConsumerModel(consumer.BroadCasting))
	}
	if r.Retries != 0 {
		options = append(options, consumer.WithMaxReconsumeTimes(r.Retries))
	}
	if r.AccessKey != "" {
		options = append(options, consumer.WithCredentials(credentials(r)))
	}
	if r.Trace {
		options = append(options, consumer.WithTrace(trace(r)))
	}
	return options
}

func messageSelector(r Request) consumer.MessageSelector {
	if r.SQL != "" {
		return consumer.MessageSelector{Type: consumer.SQL92, Expression: r.SQL}
	}
	return consumer.MessageSelector{Type: consumer.TAG, Expression: r.Tags}
}

func startConsumer(r Request) (answer, error) {
	if r.Kind == "pull" {
		return startPull(r)
	}
	started, err := rocketmq.NewPushConsumer(consumerOptions(r)...)
	if err != nil {
		return nil, err
	}
	box := &inbox{fail: r.Fail, orderly: r.Kind == "orderly", reply: r.Reply, news: make(chan struct{}, 1)}
	if r.Reply != "" {
		box.replier = producers[r.Mode]
	}
	pushes[r.Handle] = box
	handles[r.Handle] = started.Shutdown
	if err := started.Subscribe(r.Topic, messageSelector(r), box.take); err != nil {
		return nil, err
	}
	return answer{}, started.Start()
}

func startPull(r Request) (answer, error) {
	started, err := rocketmq.NewPullConsumer(consumerOptions(r)...)
	if err != nil {
		return nil, err
	}
	if err := started.Subscribe(r.Topic, messageSelector(r)); err != nil {
		return nil, err
	}
	pulls[r.Handle] = started
	handles[r.Handle] = started.Shutdown
	return answer{}, started.Start()
}

func await(r Request) (answer, error) {
	box := pushes[r.Handle]
	messages := func() []answer {
		box.lock.Lock()
		defer box.lock.Unlock()
		return append([]answer{}, box.messages...)
	}
	waitFor(r, box.news, func() bool { return len(messages()) >= r.Count })
	return answer{"messages": messages()}, nil
}

func poll(r Request) (answer, error) {
	from, messages := pulls[r.Handle], []answer{}
	deadline := time.Now().Add(time.Duration(r.Seconds) * time.Second)
	for len(messages) < r.Count && time.Now().Before(deadline) {
		taken, err := from.Poll(context.Background(), time.Second)
		if consumer.IsNoNewMsgError(err) {
			continue
		}
		if err != nil {
			return nil, err
		}
		for _, message := range taken.GetMsgList() {
			messages = append(messages, received(message))
		}
		from.ACK(context.Background(), taken, consumer.ConsumeSuccess)
	}
	return answer{"messages": messages}, from.PersistOffset(context.Background(), r.Topic)
}

func pullFrom(r Request) (answer, error) {
	queue := &primitive.MessageQueue{Topic: r.Topic, BrokerName: r.Broker, QueueId: r.Queue}
	result, err := pulls[r.Handle].PullFrom(context.Background(), queue, r.Offset, r.Count)
	if err != nil {
		return nil, err
	}
	messages := []answer{}
	for _, message := range result.GetMessageExts() {
		messages = append(messages, received(message))
	}
	return answer{
		"status": fmt.Sprint(result.Status), "next": result.NextBeginOffset, "min": result.MinOffset, "max": result.MaxOffset,
		"messages": messages,
	}, nil
}
