DO $drop$
BEGIN
  DROP FUNCTION IF EXISTS public.slidegate_random_address;
  DROP FUNCTION IF EXISTS public.slidegate_expire;
  DROP FUNCTION IF EXISTS public.slidegate_take_any;
  DROP FUNCTION IF EXISTS public.slidegate_take_any_many;
  DROP FUNCTION IF EXISTS public.slidegate_take_many;
  DROP FUNCTION IF EXISTS public.slidegate_take;
  DROP FUNCTION IF EXISTS public.slidegate_decide_one;
  DROP FUNCTION IF EXISTS public.slidegate_decide;
  DROP FUNCTION IF EXISTS public.slidegate_outside;
  DROP FUNCTION IF EXISTS public.slidegate_remember;
  DROP FUNCTION IF EXISTS public.slidegate_recall;
  DROP FUNCTION IF EXISTS public.slidegate_settled;
  DROP FUNCTION IF EXISTS public.slidegate_reply;
  DROP FUNCTION IF EXISTS public.slidegate_save;
  DROP FUNCTION IF EXISTS public.slidegate_load;
  DROP FUNCTION IF EXISTS public.slidegate_request;
  DROP FUNCTION IF EXISTS public.slidegate_apply;
  DROP FUNCTION IF EXISTS public.slidegate_settle;
  DROP FUNCTION IF EXISTS public.slidegate_take_all;
  DROP FUNCTION IF EXISTS public.slidegate_give_back;
  DROP FUNCTION IF EXISTS public.slidegate_charge;
  DROP FUNCTION IF EXISTS public.slidegate_raise_debt;
  DROP FUNCTION IF EXISTS public.slidegate_write;
  DROP FUNCTION IF EXISTS public.slidegate_look;
  DROP FUNCTION IF EXISTS public.slidegate_slot;
  DROP FUNCTION IF EXISTS public.slidegate_count_later;
  DROP FUNCTION IF EXISTS public.slidegate_weigh;
  DROP FUNCTION IF EXISTS public.slidegate_readable;
  DROP TYPE IF EXISTS public.slidegate_item;
  DROP TYPE IF EXISTS public.slidegate_row;
  DROP TABLE IF EXISTS public.slidegate_migrations;
  DROP TABLE IF EXISTS public.slidegate_documents;
  DROP TABLE IF EXISTS public.slidegate_state;
END
$drop$;
