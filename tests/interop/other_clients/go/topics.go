package main

import (
	"context"
	"time"

	"github.com/apache/rocketmq-client-go/v2/admin"
)

// withAdmin runs one operation with an admin client of its own.
func withAdmin(r Request, work func(admin.Admin) (answer, error)) (answer, error) {
	client, err := admin.NewAdmin(admin.WithResolver(resolver(r)))
	if err != nil {
		return nil, err
	}
	result, err := work(client)
	if closing := client.Close(); err == nil {
		err = closing
	}
	return result, err
}

func createTopic(r Request) (answer, error) {
	return withAdmin(r, func(client admin.Admin) (answer, error) {
		return answer{}, client.CreateTopic(context.Background(), admin.WithTopicCreate(r.Topic),
			admin.WithBrokerAddrCreate(r.Broker), admin.WithReadQueueNums(r.Queues), admin.WithWriteQueueNums(r.Queues))
	})
}

func deleteTopic(r Request) (answer, error) {
	return withAdmin(r, func(client admin.Admin) (answer, error) {
		return answer{}, client.DeleteTopic(context.Background(), admin.WithTopicDelete(r.Topic),
			admin.WithBrokerAddrDelete(r.Broker), admin.WithNameSrvAddr([]string{r.Namesrv}))
	})
}

func topics(r Request) (answer, error) {
	return withAdmin(r, func(client admin.Admin) (answer, error) {
		list, err := client.FetchAllTopicList(context.Background())
		if err != nil {
			return nil, err
		}
		return answer{"topics": list.TopicList}, nil
	})
}

func groups(r Request) (answer, error) {
	return withAdmin(r, func(client admin.Admin) (answer, error) {
		table, err := client.GetAllSubscriptionGroup(context.Background(), r.Broker, 3*time.Second)
		if err != nil {
			return nil, err
		}
		names := []string{}
		for name := range table.SubscriptionGroupTable {
			names = append(names, name)
		}
		return answer{"groups": names}, nil
	})
}
