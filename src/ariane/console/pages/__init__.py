"""The pages. `view` is what each gets, `frame` is around each, `tables` and `dialogs` are used by all."""
